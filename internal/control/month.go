package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"binnacle/internal/store"
	"binnacle/sharding"
)

// KindMonth is the kind of the documents of containers.
const KindMonth = "month"

// ErrMonthLimit says that a tenant's readings have requested as many months as they may by themselves.
var ErrMonthLimit = errors.New("the tenant's readings need too many months")

// MonthState says where a container is in its life.
type MonthState string

// The states of a container (rule X4): asked for; then expired, so that writers keep off before it is dropped; then
// dropping, while it is deleted; then dropped. An expired one may go back to asked, when a tenant that needs it came in
// the meantime, and a dropped one when it is asked for again. From dropping there is no way back: a delete may be under
// way that no process can call off.
const (
	MonthAsked    MonthState = "asked"
	MonthExpired  MonthState = "expired"
	MonthDropping MonthState = "dropping"
	MonthDropped  MonthState = "dropped"
)

// The times of rule X4.
const (
	// DropAfter is how long a container is expired, before the control documents are read that decide that it is dropped.
	DropAfter = 2 * time.Hour
	// SnapshotLife is the age from which on no writer uses a snapshot: so no writer knows less than that a container is
	// expired when it is deleted. The rest of DropAfter is for requests under way and replicas that lag.
	SnapshotLife = DropAfter - 15*time.Minute
	// DropTime is how long one attempt to delete a container may take.
	DropTime = 5 * time.Minute
	// ReopenAfter is how long after a container was dropped one of its name is made again: no delete is under way then.
	ReopenAfter = 3 * DropTime
)

// monthDamaged is the state of a container with a document that can't be understood. It is read, not written, and stays
// as it is: it may be in any state.
const monthDamaged MonthState = "damaged"

// Month is a container of one month that a process has requested.
type Month struct {
	Container string
	State     MonthState
	// Asked is when the container was last requested; zero if it never was.
	Asked time.Time
	// Since is when the container got into its state.
	Since time.Time
	By    string // the tenant for which readings asked last; empty when it was an operator's or provision's wish
	// Dropped is when the container was last dropped; zero if it never was.
	Dropped time.Time

	etag string
}

// monthBody is a month document: docs/internals/format/control.md.
type monthBody struct {
	State MonthState `json:"state"`
	Since int64      `json:"since"`
	Asked int64      `json:"asked,omitempty"`
	By    string     `json:"by,omitempty"`

	Dropped int64 `json:"dropped,omitempty"`
}

func (m Month) document() store.Document {
	d := store.NewDocument(KindMonth, m.Container, monthBody{State: m.State, Since: m.Since.UnixMilli(), By: m.By,
		Asked: store.Millis(m.Asked), Dropped: store.Millis(m.Dropped)})
	d.ETag = m.etag
	return d
}

func monthsOf(docs []store.Document, broken *store.Damage) map[string]Month {
	out := make(map[string]Month, len(docs))
	for _, d := range docs {
		var b monthBody
		if err := d.Decode(&b); err != nil {
			broken.Add(d, err)
			out[d.ID] = Month{Container: d.ID, State: monthDamaged, etag: d.ETag}
			continue
		}
		m := Month{Container: d.ID, State: b.State, Since: time.UnixMilli(b.Since).UTC(), By: b.By, etag: d.ETag,
			Asked: store.TimeOf(b.Asked), Dropped: store.TimeOf(b.Dropped)}
		if m.Dropped.IsZero() && b.State == MonthDropped {
			m.Dropped = m.Since
		}
		out[d.ID] = m
	}
	return out
}

// AskMonth asks for a container, by its name. It returns when the wish is stored, not when the container is there. It
// costs nothing when a snapshot that is younger than SnapshotLife has the container. An expired container that is not
// dropped yet stays as it is: provision decides whether it is still needed, and the caller asks again until it is
// there. A container costs money whether it is used or not, and every producer can make up times: so the readings of
// a tenant, unless that is empty, may ask for MaxMonths in any MonthLimitWindow, and for more it fails with
// ErrMonthLimit. Months that are asked for already cost a tenant nothing.
func (d *Directory) AskMonth(ctx context.Context, container, tenant string) error {
	if _, _, ok := sharding.ParseContainer(container); !ok {
		return fmt.Errorf("request container %q: not the container of a month", container)
	}
	if d.mayWrite(container) {
		return nil
	}
	if err := d.asking.Acquire(ctx, 1); err != nil { // thousands of bins may wait for one month
		return err
	}
	defer d.asking.Release(1)
	if d.mayWrite(container) {
		return nil
	}
	for isAsked := false; !isAsked; { // until the snapshot shows it
		err := store.Contend(ctx, func() error {
			v, err := d.Refresh(ctx)
			if err != nil {
				return err
			}
			m, found := v.months[container]
			now := d.cfg.Now().UTC()
			switch isAsked = found && m.State != MonthDropped; {
			case m.State == monthDamaged:
				return fmt.Errorf("%s document %q is damaged", KindMonth, container)
			case isAsked:
				return nil
			case tenant != "" && !v.MayAsk(tenant, now):
				return ErrMonthLimit
			}
			_, err = store.Put(ctx, d.cfg.Documents, Month{Container: container, State: MonthAsked, Asked: now, Since: now,
				By: tenant, Dropped: m.Dropped, etag: m.etag}.document())
			return err
		})
		if err != nil {
			return fmt.Errorf("request container %s: %w", container, err)
		}
	}
	return nil
}

// MonthLimitWindow is the time in which a tenant's readings may request MaxMonths months.
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

// mayWrite reports whether the snapshot has a container, and is young enough to store chunks under it (rule X4).
func (d *Directory) mayWrite(container string) bool {
	v := d.Snapshot()
	return v.HasContainer(container) && d.Age(v) < SnapshotLife
}

// Mark takes a container to a state, and returns the stored month. It fails with store.ErrChanged if the container is
// not as m says any more: decisions that were made by m must be made again (rule X4).
func (d *Directory) Mark(ctx context.Context, m Month, state MonthState) (Month, error) {
	if m.State == monthDamaged {
		return m, fmt.Errorf("%s document %q is damaged", KindMonth, m.Container)
	}
	if err := d.cfg.Check(); err != nil {
		return m, fmt.Errorf("mark container %s as %s: %w", m.Container, state, err)
	}
	was, now := m.etag, d.cfg.Now().UTC()
	if was == "" && state == MonthAsked {
		m.Asked = now
	}
	if state == MonthDropped {
		m.Dropped = now
	}
	m.State, m.Since = state, now
	etag, err := store.Put(ctx, d.cfg.Documents, m.document())
	if errors.Is(err, store.ErrExists) {
		err = store.ErrChanged
	}
	if err == nil {
		m.etag = etag
		_, err = d.refreshUntil(ctx, func(v *Snapshot) bool { return v.Month(m.Container).etag != was })
	}
	if err != nil {
		return m, fmt.Errorf("mark container %s as %s: %w", m.Container, state, err)
	}
	return m, nil
}

// CheckUnchanged reads the document of a container, and fails with store.ErrChanged if it is not as m says any more.
func (d *Directory) CheckUnchanged(ctx context.Context, m Month) error {
	doc, found, err := d.cfg.Documents.Read(ctx, KindMonth, m.Container)
	if err == nil && (!found || doc.ETag != m.etag) {
		err = store.ErrChanged
	}
	if err != nil {
		return fmt.Errorf("is container %s still %s: %w", m.Container, m.State, err)
	}
	return nil
}
