package read

import (
	"context"
	"errors"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// maxOrdersAge bounds the age of the orders of erasure that a query begins with (rule E-R9).
const maxOrdersAge = 5 * time.Second

// erased leaves out of the answer what orders of erasure erase (rule E-R9): of stored chunks here, of heads by the
// request.
type erased struct {
	snapshot *control.Snapshot
	orders   control.Erasures
}

// beginErased takes the orders of a tenant, which must not be older than maxOrdersAge. Of a tenant that is not known
// there are none: names that are made up cost nothing.
func (q *Query) beginErased(ctx context.Context) error {
	v := q.r.cfg.Directory.Snapshot()
	if err := v.Damaged(q.req.Tenant); err != nil {
		return err
	}
	if _, known := v.Tenant(q.req.Tenant); !known {
		return nil
	}
	if q.r.cfg.Now().Sub(v.ReadAt) > maxOrdersAge {
		var err error
		if v, err = q.r.cfg.Directory.Refresh(ctx); err != nil {
			return Unavailable(ctx, "read the orders of erasure", err)
		}
		if err := v.Damaged(q.req.Tenant); err != nil {
			return err
		}
	}
	q.erased.take(v, q.req.Tenant)
	return nil
}

// followErased takes the orders of the snapshot that the store is read with.
func (q *Query) followErased(ctx context.Context) error {
	isNew := q.erased.snapshot == nil
	q.erased.take(q.plan.snapshot, q.req.Tenant)
	if isNew && q.erased.acknowledged() > 0 {
		return Unavailable(ctx, "read the orders of erasure", errNewOrders)
	}
	return nil
}

// errNewOrders says that heads were asked without orders, because the tenant was not known yet.
var errNewOrders = errors.New("the tenant was not known: repeat the query")

// take takes the orders of a snapshot, unless those in use are as new, and reports whether it did.
func (e *erased) take(v *control.Snapshot, tenant string) bool {
	if e.snapshot != nil && !v.ReadAt.After(e.snapshot.ReadAt) {
		return false
	}
	e.snapshot, e.orders = v, v.Erasures(tenant)
	return true
}

// acknowledged returns how many orders are.
func (e *erased) acknowledged() (n int) {
	for _, o := range e.orders {
		if o.IsAcknowledged() {
			n++
		}
	}
	return n
}

// ask returns the orders that may be about rows of a request, for heads.
func (e *erased) ask(r telemetry.Range) (out []store.HeadErasure) {
	for _, o := range e.orders {
		if !o.IsAcknowledged() || o.From.Start() >= r.To || o.To.Start() <= r.From {
			continue
		}
		one := store.HeadErasure{Device: o.Device, From: o.From, To: o.To}
		for _, p := range o.Positions() {
			one.Positions = append(one.Positions,
				store.HeadPosition{Stream: p.Stream, Partition: p.Partition, Offset: p.Through})
		}
		out = append(out, one)
	}
	return out
}

// covers reports whether nothing of a chunk may be answered: it is erased, or has been.
func (e *erased) covers(p *Piece) bool {
	if p.Chunk == nil {
		return false
	}
	h := &p.Chunk.Header
	if len(e.orders) == 0 {
		return h.Readings == 0
	}
	at := control.ErasurePartition{Stream: h.ID.Stream, Partition: h.ID.Partition}
	return h.Readings == 0 || h.Through <= e.orders.Through(h.Device, h.ID.Day, at)
}

// deliver hands a piece on, unless it is erased.
func (q *Query) deliver(p *Piece) error {
	if known := q.erased.acknowledged(); q.erased.take(q.r.cfg.Directory.Snapshot(), q.req.Tenant) {
		if q.erased.acknowledged() != known {
			q.notes.noteInexact() // what was delivered before may have been erased
		}
	}
	if q.erased.covers(p) {
		p.Release()
		return nil
	}
	return q.sink.Add(p)
}

// leaveOut has the chunks of a covered day answer for the devices that an order erases there: rollups of before the end
// of its sweep have them still.
func (e *erased) leaveOut(d *rollupDay) {
	for _, o := range e.orders {
		made := time.Unix(d.manifest.AsOf, 0)
		switch {
		case !d.hasRollups() || !o.IsAcknowledged() || d.day < o.From || d.day >= o.To:
		case !o.SweptAt().IsZero() && made.After(o.SweptAt().Add(margin)):
		case o.Device == "":
			d.from, d.to = 0, 0
		default:
			d.raw[o.Device] = true
		}
	}
}
