package control

import (
	"context"
	"fmt"
	"time"

	"binnacle/sharding"
)

// MonthState says where a container is in its life.
type MonthState string

// The states of a container: asked for; then expired, so that writers keep off before it is dropped; then dropped. An
// expired one may go back to asked, when a tenant that needs it came in the meantime, and a dropped one when it is
// asked for again.
const (
	MonthAsked   MonthState = "asked"
	MonthExpired MonthState = "expired"
	MonthDropped MonthState = "dropped"
)

// monthDamaged is the state of a container with a document that can't be understood. It is read, not written, and stays
// as it is: it may be in any state.
const monthDamaged MonthState = "damaged"

// Month is a container of one month that somebody asked for.
type Month struct {
	Container string
	State     MonthState
	Asked     time.Time // when it was asked for last; zero when nobody ever did
	Since     time.Time // when it got into its state
	By        string    // the tenant for which readings asked last; empty when it was an operator's or provision's wish

	etag string
}

// monthBody is a month document: docs/format/control.md.
type monthBody struct {
	State MonthState `json:"state"`
	Since int64      `json:"since"`
	Asked int64      `json:"asked,omitempty"`
	By    string     `json:"by,omitempty"`
}

func (m Month) document() Document {
	b := monthBody{State: m.State, Since: m.Since.UnixMilli(), By: m.By}
	if !m.Asked.IsZero() {
		b.Asked = m.Asked.UnixMilli()
	}
	d := newDocument(KindMonth, m.Container, b)
	d.ETag = m.etag
	return d
}

func monthsOf(docs []Document, broken *damage) map[string]Month {
	out := make(map[string]Month, len(docs))
	for _, d := range docs {
		var b monthBody
		if err := decode(d, &b); err != nil {
			broken.add(d, err)
			out[d.ID] = Month{Container: d.ID, State: monthDamaged, etag: d.ETag}
			continue
		}
		m := Month{Container: d.ID, State: b.State, Since: time.UnixMilli(b.Since).UTC(), By: b.By, etag: d.ETag}
		if b.Asked != 0 {
			m.Asked = time.UnixMilli(b.Asked).UTC()
		}
		out[d.ID] = m
	}
	return out
}

// AskMonth asks for a container, by its name. It returns when the wish is stored, not when the
// container is there. It costs nothing when the snapshot already has the container. An expired container
// that is not dropped yet stays as it is: provision decides whether it is still needed, and the caller
// asks again while HasContainer is false.
func (d *Directory) AskMonth(ctx context.Context, container string) error {
	return d.AskMonthFor(ctx, container, "")
}

// AskMonthFor asks for a container because of a reading of a tenant. A container costs money whether it is used or not,
// and every producer can make up times: so a tenant's readings may ask for MaxMonths in any MonthLimitWindow, and for
// more it fails with ErrMonthLimit. Months that are asked for already cost a tenant nothing.
func (d *Directory) AskMonthFor(ctx context.Context, container, tenant string) error {
	if _, _, ok := sharding.ParseContainer(container); !ok {
		return fmt.Errorf("request container %q: not the container of a month", container)
	}
	if d.Snapshot().HasContainer(container) {
		return nil
	}
	release, err := d.asking.acquire(ctx) // thousands of bins may wait for one month
	if err != nil {
		return err
	}
	defer release()
	if d.Snapshot().HasContainer(container) {
		return nil
	}
	refused := false
	err = d.setMonth(ctx, container, func(m Month, found bool) (Month, bool) {
		if found && m.State != MonthDropped {
			return m, false
		}
		now := d.cfg.Now().UTC()
		if refused = tenant != "" && !d.Snapshot().MayAsk(tenant, now); refused {
			return m, false
		}
		return Month{Container: container, State: MonthAsked, Asked: now, Since: now, By: tenant, etag: m.etag}, true
	})
	if err == nil && refused {
		err = ErrMonthLimit
	}
	if err != nil {
		return fmt.Errorf("request container %s: %w", container, err)
	}
	return nil
}

// MonthLimitWindow is the time in which a tenant's readings may ask for so many months by themselves.
const MonthLimitWindow = 30 * 24 * time.Hour

// MayAsk reports whether a tenant's readings may ask for one more month at now.
func (v *Snapshot) MayAsk(tenant string, now time.Time) bool {
	n := 0
	for _, m := range v.months {
		if m.By == tenant && now.Before(m.Asked.Add(MonthLimitWindow)) {
			n++
		}
	}
	return n < v.maxMonths
}

// Expire marks a container that nobody needs, so that writers keep off. It may be dropped when all processes have read
// the control documents again since, and a read after that shows that still no tenant needs it: a tenant that registers
// reads what Expire wrote before it writes.
func (d *Directory) Expire(ctx context.Context, container string) error {
	return d.mark(ctx, container, MonthExpired)
}

// Keep takes an Expire back.
func (d *Directory) Keep(ctx context.Context, container string) error {
	return d.mark(ctx, container, MonthAsked)
}

// Dropped says that an expired container is gone.
func (d *Directory) Dropped(ctx context.Context, container string) error {
	return d.mark(ctx, container, MonthDropped)
}

func (d *Directory) mark(ctx context.Context, container string, state MonthState) error {
	err := d.setMonth(ctx, container, func(m Month, found bool) (Month, bool) {
		if found && m.State == state {
			return m, false
		}
		now := d.cfg.Now().UTC()
		if !found && state == MonthAsked {
			m.Asked = now
		}
		m.Container, m.State, m.Since = container, state, now
		return m, true
	})
	if err != nil {
		return fmt.Errorf("mark container %s as %s: %w", container, state, err)
	}
	return nil
}

// setMonth stores what change makes of a month, and reads until the snapshot shows it. change returns
// false when there is nothing to store.
func (d *Directory) setMonth(ctx context.Context, container string,
	change func(m Month, found bool) (Month, bool)) error {
	for changed := true; changed; {
		err := contend(ctx, func() error {
			v, err := d.Refresh(ctx)
			if err != nil {
				return err
			}
			var m Month
			old, found := v.months[container]
			if old.State == monthDamaged {
				return fmt.Errorf("%s document %q is damaged", KindMonth, container)
			}
			if m, changed = change(old, found); changed {
				_, err = put(ctx, d.cfg.Documents, m.document())
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
