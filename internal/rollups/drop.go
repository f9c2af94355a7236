package rollups

import (
	"context"
	"fmt"

	"binnacle/binning/rollup"
)

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
