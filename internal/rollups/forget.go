package rollups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/store"
)

// Forget has a device read raw, of a key and day, from now on: its rollups count no more. It is the part that rollups
// have in erasing a device: its chunks are removed first; then, when no replica shows them, a Margin later, Forget; and
// when every manifest has left every cache, a Margin later too, nothing shows the device. The manifest is replaced even
// if nothing of the device is in it, so that a round which has read its chunks before can't end (rule V6). Rollups that
// have rows of it are gone when Rebuild has made the day's anew.
func (w *Writer) Forget(ctx context.Context, t Target, device string) error {
	pauses := retryPolicy.Begin()
	for {
		err := w.forgetOnce(ctx, t, device)
		if !errors.Is(err, store.ErrChanged) && !errors.Is(err, store.ErrExists) {
			if err != nil {
				err = fmt.Errorf("forget device %q in rollups of %s, %s: %w", device, t.TenantShard, t.Day, err)
			}
			return err
		}
		if err := w.cfg.Sleep(ctx, pauses.Next()); err != nil {
			return err
		}
	}
}

func (w *Writer) forgetOnce(ctx context.Context, t Target, device string) error {
	r := &round{Writer: w, Target: t}
	if err := r.read(ctx); err != nil {
		return err
	}
	r.manifest.MarkRaw(device, rollup.AllDay)
	r.manifest.Written++
	doc, err := r.manifest.Encode()
	if err != nil {
		return err
	}
	key, id := r.rollupKey(rollup.ManifestKey), rollup.ManifestID(t.Day)
	if r.etag == "" {
		_, err = w.cfg.Rollups.CreateRollup(ctx, key, id, doc)
	} else {
		_, err = w.cfg.Rollups.ReplaceRollup(ctx, key, id, r.etag, doc)
	}
	return err
}

// Drop takes away the manifest of a key and day, and then its rollups: everything is read raw again.
func (w *Writer) Drop(ctx context.Context, t Target) error {
	r := &round{Writer: w, Target: t}
	if err := r.read(ctx); err != nil {
		return err
	}
	if r.etag == "" {
		return nil
	}
	// A round that is under way has read the manifest that goes, so it can't commit.
	if _, err := w.cfg.Rollups.DeleteRollup(ctx, r.rollupKey(rollup.ManifestKey), rollup.ManifestID(t.Day)); err != nil {
		return fmt.Errorf("drop rollups of %s, %s: %w", t.TenantShard, t.Day, err)
	}
	for i := range r.old.Batches {
		r.remove(ctx, &r.old.Batches[i])
	}
	return ctx.Err()
}

// ForgetMargin returns how long after Forget, and before it after the last chunk is removed, one waits.
func (w *Writer) ForgetMargin() time.Duration { return w.cfg.Margin }
