package erasure

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/store"
)

// Orders stores orders of erasure. It holds no state and is safe for any number of callers.
type Orders struct {
	docs  store.Documents
	now   func() time.Time
	check func() error
}

// NewOrders makes Orders over the control documents.
func NewOrders(docs store.Documents, now func() time.Time) *Orders {
	return &Orders{docs, now, func() error { return nil }}
}

// OnlyWhile has what decides fail with the error of check, and returns o. It is set before o is used.
func (o *Orders) OnlyWhile(check func() error) *Orders {
	o.check = check
	return o
}

// CheckClock fails while this process must decide nothing that cannot be undone.
func (o *Orders) CheckClock() error { return o.check() }

// Announce stores an order, and returns it with its id. It erases nothing before Acknowledge: the ends of the log must
// be read between the two (rule E-R1). After an error it may be announced or not; Void makes sure.
func (o *Orders) Announce(ctx context.Context, e Order) (*Order, error) {
	if e.From >= e.To {
		return nil, fmt.Errorf("the order covers no day: from %s, to %s", e.From, e.To)
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("announce the erasure: %w", err)
	}
	var random [6]byte
	_, _ = rand.Read(random[:])
	e.At = o.now().UTC().Truncate(time.Millisecond)
	e.ID = e.At.Format("20060102T150405Z") + "-" + hex.EncodeToString(random[:])
	if _, err := o.docs.Create(ctx, store.NewDocument(Kind, e.ID+announcedSuffix, e.body())); err != nil {
		return nil, fmt.Errorf("announce the erasure: %w", err)
	}
	return &e, nil
}

// Restore announces an order that a restored account lacks once more, under its id and time. Acknowledge follows.
func (o *Orders) Restore(ctx context.Context, e *Order) error {
	return o.create(ctx, "restore", e.ID+announcedSuffix, e.body())
}

// create stores a document of an order unless it is stored already.
func (o *Orders) create(ctx context.Context, doing, id string, body any) error {
	_, err := o.docs.Create(ctx, store.NewDocument(Kind, id, body))
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("%s erasure %s: %w", doing, id, err)
	}
	return nil
}

// Settle acknowledges an order with its positions. The catalog forgets the devices of one about all days before, and
// what it forgets stays so: first the decision is stored that the order holds, and Void carries that out if this
// process dies. Settle fails with ErrVoid where Void came first.
func (o *Orders) Settle(ctx context.Context, pages store.Catalog, e *Order) error {
	positions := e.Positions()
	if e.IsWhole() {
		decided, err := o.decide(ctx, e.ID+decidedSuffix, positionsBody{Positions: positions})
		if err == nil {
			positions, err = decided.Positions, Forget(ctx, pages, e)
		}
		if err != nil {
			return err
		}
	}
	return o.Acknowledge(ctx, e.ID, positions)
}

// Acknowledge stores the positions of an order that was announced before they were read: the last offset of every
// partition of each stream. The readings of an acknowledged order are gone. Acknowledge fails with ErrVoid where Void
// came first. Positions that are stored already stay.
func (o *Orders) Acknowledge(ctx context.Context, id string, positions []Position) error {
	_, err := o.decide(ctx, id+positionsSuffix, positionsBody{Positions: positions})
	return err
}

// Void makes an order void that is not acknowledged: the process that announced it has died. Where that had decided
// that the order holds, Void acknowledges it. It reports whether the order is void.
func (o *Orders) Void(ctx context.Context, pages store.Catalog, e *Order) (bool, error) {
	if e.IsWhole() {
		decided, err := o.decide(ctx, e.ID+decidedSuffix, positionsBody{Void: true})
		if err == nil {
			return false, o.Settle(ctx, pages, e.Acknowledged(decided.Positions))
		}
		if !errors.Is(err, ErrVoid) {
			return false, err
		}
	}
	_, err := o.decide(ctx, e.ID+positionsSuffix, positionsBody{Void: true})
	if errors.Is(err, ErrVoid) {
		return true, nil
	}
	return false, err
}

// Forget makes the catalog forget the devices of an order about all days, and entries from ingesters that do not know
// the order yet. Forget comes before the acknowledgement: behind it ingesters write entries of the devices again, with
// a later time than that of the page that forgets. The role provision merges pages and leaves out the forgotten
// devices. A copied order forgets only entries that were copied from the same account.
func Forget(ctx context.Context, pages store.Catalog, o *Order) error {
	until := o.ForgottenUntil().UnixMilli()
	id, doc, err := catalog.Encode(catalog.Page{Updated: until, Forget: []catalog.Forgotten{
		{Device: catalog.Digest(o.Device), Account: o.Account, Until: until}}})
	if err == nil {
		err = pages.Create(ctx, o.Tenant, id, doc)
	}
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("have the catalog of %s forget: %w", o.Tenant, err)
	}
	return nil
}

// Swept is what the sweep of an order has left under one first-level key of a container, as its chunks say.
type Swept struct {
	Container   string `json:"container"`
	TenantShard string `json:"tenantShard"`
	Chunks      int    `json:"chunks"` // with rows that were erased
	// Rows counts the rows of those chunks.
	Rows   int `json:"rows"`
	Fences int `json:"fences"`
	// Digest is over the digests of the erased documents, in the order of device and id.
	Digest string `json:"digest"`
}

// Progress is how far the first sweep of an order is.
type Progress struct {
	At int64 `json:"at"` // ms since 1970 UTC
	// Containers counts the containers in which nothing is left.
	Containers int `json:"containers"`
	Of         int `json:"of"`     // containers that the order touches
	Chunks     int `json:"chunks"` // with rows that were erased
	// Rows counts the rows of the erased chunks.
	Rows int `json:"rows"`
}

// StoreProgress stores how far the first sweep of an order is. Where another process stores it at the same moment, that
// one's stays.
func (o *Orders) StoreProgress(ctx context.Context, id string, p Progress) error {
	p.At = o.now().UnixMilli()
	doc := store.NewDocument(Kind, id+progressSuffix, p)
	_, err := o.docs.Create(ctx, doc)
	if errors.Is(err, store.ErrExists) {
		var stored store.Document
		var found bool // a replica may lag
		if stored, found, err = o.docs.Read(ctx, Kind, doc.ID); err == nil && found {
			doc.ETag = stored.ETag
			_, err = o.docs.Replace(ctx, doc)
		}
	}
	if err != nil && !errors.Is(err, store.ErrChanged) {
		return fmt.Errorf("store the progress of erasure %s: %w", id, err)
	}
	return nil
}

// EndSweep stores that the sweep of an order has ended, unless that is stored already: no chunk holds what the order
// erases. It says nothing of rollups and pages of the catalog.
func (o *Orders) EndSweep(ctx context.Context, id, by string, places []Swept) error {
	return o.create(ctx, "end the sweep of", id+sweptSuffix, sweptBody{o.now().UnixMilli(), by, places})
}

// Cleared counts the documents of rollups that were deleted for an order under one first-level key of a container,
// by the process that ended it: one that died before may have deleted more.
type Cleared struct {
	Container   string `json:"container"`
	TenantShard string `json:"tenantShard"`
	Documents   int    `json:"documents"`
}

// EndClearing stores that neither a rollup nor a page of the catalog is left that may show what an order erases, unless
// that is stored already.
func (o *Orders) EndClearing(ctx context.Context, id, by string, places []Cleared) error {
	return o.create(ctx, "end the clearing of", id+clearedSuffix, clearedBody{o.now().UnixMilli(), by, places})
}

// decide stores a decision unless one is stored, and returns the one that counts. That is ErrVoid where it makes the
// order void.
func (o *Orders) decide(ctx context.Context, id string, body positionsBody) (positionsBody, error) {
	body.At = o.now().UnixMilli()
	doc := store.NewDocument(Kind, id, body)
	for wait := store.Lagging.Begin(); ; {
		_, err := o.docs.Create(ctx, doc)
		if err == nil && !body.Void {
			return body, nil
		}
		if err == nil {
			return body, ErrVoid
		}
		if errors.Is(err, store.ErrExists) {
			d, found, err := o.docs.Read(ctx, Kind, id)
			var stored positionsBody
			if err == nil && found {
				if err = d.Decode(&stored); err == nil && stored.Void {
					err = ErrVoid
				}
				return stored, err
			}
		}
		// The outcome is unknown: the same create finds out.
		if waited := wait.Wait(ctx); waited != nil {
			return body, fmt.Errorf("decide erasure %s: %w", id, err)
		}
	}
}
