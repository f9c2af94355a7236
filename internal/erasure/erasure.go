// Package erasure has the orders to erase readings: what they cover, and the documents that keep them.
package erasure

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// Kind is the kind of the documents of orders.
const Kind = "erasure"

// Order is an order to erase readings (rules E-R1 and E-R2): the readings of the devices and days that it matches, if
// their record lies at or below its position. It never changes.
type Order struct {
	ID     string
	Tenant string
	Device string // empty: all devices of the tenant
	// From is the first day of event times, To the one after the last; a reading of any other day stays.
	From, To telemetry.Day
	By       string // the person or process that asked for it
	// At is when the order was announced.
	At time.Time
	// Account names the account from which the order was copied, with the tenant, empty for an order of this one (Via).
	Account string

	positions map[Partition]int64 // nil until it is acknowledged
	// AcknowledgedAt is when the positions were stored; zero before.
	AcknowledgedAt time.Time
	// Progress is that of the first sweep, nil before it has swept anything.
	Progress *Progress
	// SweptAt is when the sweep had ended: no chunk holds what the order erases any more. It is zero before.
	SweptAt time.Time
	// Places are what the sweep has left, by container and first-level key, none before it has ended.
	Places []Swept
	// ClearedAt is when neither a rollup nor a page of the catalog was left that may show what the order erases. It is
	// zero before.
	ClearedAt time.Time
	// Cleared are the rollups that were deleted, by container and first-level key, none before ClearedAt.
	Cleared []Cleared
}

// Partition is a partition of the log of a topic, as it is read as a stream.
type Partition struct {
	Stream    uint32
	Partition int32
}

// Position is the last offset that an order covers in a partition.
type Position struct {
	Stream    uint32 `json:"stream"`
	Partition int32  `json:"partition"`
	Through   int64  `json:"through"`
}

// orderBody is the document that announces an order: docs/internals/format/control.md.
type orderBody struct {
	Tenant string        `json:"tenant"`
	Device string        `json:"device,omitempty"`
	From   telemetry.Day `json:"from"`
	To     telemetry.Day `json:"to"`
	By     string        `json:"by"`
	At     int64         `json:"at"`

	Account string `json:"account,omitempty"`
}

// positionsBody is a document that decides on an order: that it is acknowledged or void, or is going to be.
type positionsBody struct {
	At        int64      `json:"at"`
	Void      bool       `json:"void,omitempty"`
	Positions []Position `json:"positions,omitempty"`
}

// sweptBody is the document of the end of a sweep.
type sweptBody struct {
	At     int64   `json:"at"`
	By     string  `json:"by"`
	Places []Swept `json:"places"`
}

// clearedBody is the document that says since when rollups are clear.
type clearedBody struct {
	At     int64     `json:"at"`
	By     string    `json:"by"`
	Places []Cleared `json:"places,omitempty"`
}

// The ids of the documents of an order begin with its own: the one that announces it has the first suffix.
const (
	announcedSuffix = ".order"
	decidedSuffix   = ".decided"
	positionsSuffix = ".positions"
	progressSuffix  = ".progress"
	sweptSuffix     = ".swept"
	clearedSuffix   = ".cleared"
)

// EveryPartition is the Partition of a position that counts for each partition of a stream: its log is gone.
const EveryPartition = -1

// EveryDay is the To of an order without end.
const EveryDay = telemetry.Day(1 << 22)

// ErrVoid says that an order was made void before it was acknowledged: it erases nothing.
var ErrVoid = errors.New("the order of erasure is void")

// IsAcknowledged reports whether the order's positions are stored: from then on what it erases is gone.
func (e *Order) IsAcknowledged() bool { return e.positions != nil }

// Positions returns the last offsets that the order covers, nil before it is acknowledged.
func (e *Order) Positions() (out []Position) {
	for at, through := range e.positions {
		out = append(out, Position{at.Stream, at.Partition, through})
	}
	slices.SortFunc(out, func(a, b Position) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

// Acknowledged returns the order with positions.
func (e *Order) Acknowledged(positions []Position) *Order {
	out := *e
	out.positions = make(map[Partition]int64, len(positions))
	for _, p := range positions {
		out.positions[Partition{p.Stream, p.Partition}] = p.Through
	}
	return &out
}

// Via returns how copies of an account name what they take from it, by its name there, which is empty for what is the
// account's own. So it is a path, which begins with the account that was copied last.
func Via(account, name string) string { return strings.TrimSuffix(account+"/"+name, "/") }

// IsAbout reports whether the order is about what was copied from an account, or with an empty name about what this one
// has of its own: an order that was copied is about nothing but what came from the same account.
func (e *Order) IsAbout(account string) bool {
	return e.Account == "" || strings.HasPrefix(account+"/", e.Account+"/")
}

// IsWhole reports whether the order is about all days: nothing of its devices stays.
func (e *Order) IsWhole() bool { return e.From == 0 && e.To == EveryDay }

// Matches reports whether the order is about a device and day.
func (e *Order) Matches(device string, day telemetry.Day) bool {
	return (e.Device == "" || e.Device == device) && day >= e.From && day < e.To
}

// Position returns the last offset that the order covers in a partition, -1 for none, and whether the partition was
// read as that stream when the order was given.
func (e *Order) Position(at Partition) (through int64, known bool) {
	if through, known = e.positions[at]; known {
		return through, true
	}
	if through, known = e.positions[Partition{at.Stream, EveryPartition}]; known {
		return through, true
	}
	return -1, false
}

// Covers reports whether the order covers a record, by its offset or, where the partition's stream began after the
// order, by its timestamp, ms (rule E-R2).
func (e *Order) Covers(at Partition, offset, published int64) bool {
	through, known := e.Position(at)
	return e.IsAcknowledged() && (offset <= through || !known && published >= 0 && published <= e.At.UnixMilli())
}

// Through returns the last offset that the order covers in a partition, -1 for none.
func (e *Order) Through(stream uint32, partition int32) int64 {
	through, _ := e.Position(Partition{stream, partition})
	return through
}

// ThroughAny returns the last offset that the order covers in a partition, of whichever stream has the highest one.
func (e *Order) ThroughAny(partition int32) int64 {
	through := int64(-1)
	for at, p := range e.positions {
		if at.Partition == partition || at.Partition == EveryPartition {
			through = max(through, p)
		}
	}
	return through
}

// ForgottenUntil returns until when entries of the devices of an order about all days do not count in the catalog: an
// ingester may write what the order erases for a minute before it knows the order.
func (e *Order) ForgottenUntil() time.Time { return e.At.Add(time.Minute) }

// List are the orders of a tenant, in the order of their ids.
type List []*Order

// Of returns the orders that are about a device and day.
func (list List) Of(device string, day telemetry.Day) (out List) {
	for _, e := range list {
		if e.Matches(device, day) {
			out = append(out, e)
		}
	}
	return out
}

// Find returns the order of an id, nil if there is none.
func (list List) Find(id string) *Order {
	for _, e := range list {
		if e.ID == id {
			return e
		}
	}
	return nil
}

// Through returns the last offset of a partition that is erased of a device and day, -1 for none.
func (list List) Through(device string, day telemetry.Day, at Partition) int64 {
	through := int64(-1)
	for _, e := range list.Of(device, day) {
		through = max(through, e.Through(at.Stream, at.Partition))
	}
	return through
}

// CatalogSince returns an instant after which a copy of the catalog must have been read to be without the devices that
// orders about all days erase, zero without such orders.
func (list List) CatalogSince() (since time.Time) {
	const skew = time.Minute // clocks differ
	for _, e := range list {
		if at := e.AcknowledgedAt.Add(skew); e.IsAcknowledged() && e.IsWhole() && at.After(since) {
			since = at
		}
	}
	return since
}

// IsAwaited reports whether an order about all days of a device is announced and not acknowledged.
func (list List) IsAwaited(device string) bool {
	return slices.ContainsFunc(list, func(e *Order) bool {
		return !e.IsAcknowledged() && e.IsWhole() && (e.Device == "" || e.Device == device)
	})
}

// MayHave reports whether an entry of a device may have something erased. The catalog has forgotten the device until an
// instant, ms, by an order about all days. The orders of the list were read at readAt, and are applied to the entry.
func (list List) MayHave(device string, until int64, readAt time.Time) bool {
	known := readAt.UnixMilli() > until
	for _, e := range list {
		if e.IsWhole() && (e.Device == "" || e.Device == device) {
			known = known || e.ForgottenUntil().UnixMilli() >= until
		}
	}
	return !known || list.IsAwaited(device)
}

// Times returns the event times of a device in a range that acknowledged orders cover: from each order the times before
// it was given. They are in order, and do not overlap.
func (list List) Times(device string, r telemetry.Range) (out []telemetry.Range) {
	var all []telemetry.Range
	for _, e := range list {
		t := telemetry.Range{From: max(r.From, e.From.Start()), To: min(r.To, e.To.Start(), e.At.UnixMilli())}
		if e.IsAcknowledged() && (e.Device == "" || e.Device == device) && !t.Empty() {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b telemetry.Range) int { return cmp.Compare(a.From, b.From) })
	for _, t := range all {
		if n := len(out); n > 0 && t.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, t.To)
		} else {
			out = append(out, t)
		}
	}
	return out
}

// Hides reports whether an acknowledged order covers a refused reading of a device: one that was published before it.
// Both times are ms since 1970 UTC; an event time that is not known is negative, and orders about all days cover it.
func (list List) Hides(device string, eventTime, published int64) bool {
	return slices.ContainsFunc(list, func(e *Order) bool {
		return e.IsAcknowledged() && e.IsAbout("") && published <= e.At.UnixMilli() &&
			(e.Device == "" || e.Device == device) &&
			(e.IsWhole() || eventTime >= 0 && e.Matches(device, telemetry.DayOf(eventTime)))
	})
}

// Pending reports whether an order about a device and day is announced and not acknowledged (rule E-R5).
func (list List) Pending(device string, day telemetry.Day) bool {
	return slices.ContainsFunc(list, func(e *Order) bool { return !e.IsAcknowledged() && e.Matches(device, day) })
}

// Of returns the orders of documents, by tenant. Of a tenant with a damaged one nothing may be answered; a
// damaged one that names no tenant is an error.
func Of(docs []store.Document, broken *store.Damage) (map[string]List, error) {
	var out map[string]List
	byID := make(map[string]*Order)
	for _, d := range docs {
		id, ok := strings.CutSuffix(d.ID, announcedSuffix)
		if !ok {
			continue
		}
		var b orderBody
		if err := d.Decode(&b); err != nil {
			var whose struct{ Tenant string }
			if json.Unmarshal(d.Body, &whose) != nil || whose.Tenant == "" {
				return nil, err
			}
			b.Tenant = whose.Tenant
			broken.Add(d, err, b.Tenant)
		}
		byID[id] = b.order(id)
	}
	for _, d := range docs {
		at := max(0, strings.LastIndex(d.ID, "."))
		id, what := d.ID[:at], d.ID[at:]
		e, known := byID[id]
		switch {
		case !known && what == positionsSuffix:
			// A list in pages may miss the first document for a moment: the order is as good as not known.
			return nil, fmt.Errorf("%s document %q acknowledges an order that is not there", d.Kind, d.ID)
		case !known:
			continue
		}
		isVoid, err := e.take(what, d)
		if err != nil {
			broken.Add(d, err, e.Tenant)
		}
		if isVoid {
			delete(byID, id)
		}
	}
	for _, e := range byID {
		if out == nil {
			out = make(map[string]List)
		}
		out[e.Tenant] = append(out[e.Tenant], e)
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b *Order) int { return strings.Compare(a.ID, b.ID) })
	}
	return out, nil
}

// take takes what another document says about the order, and reports whether that makes it void.
func (e *Order) take(what string, d store.Document) (isVoid bool, err error) {
	switch what {
	case positionsSuffix:
		var b positionsBody
		if err = d.Decode(&b); err != nil || b.Void {
			return b.Void, err
		}
		*e = *e.Acknowledged(b.Positions)
		e.AcknowledgedAt = time.UnixMilli(b.At).UTC()
	case progressSuffix:
		e.Progress = &Progress{}
		err = d.Decode(e.Progress)
	case sweptSuffix:
		var b sweptBody
		err = d.Decode(&b)
		e.SweptAt, e.Places = time.UnixMilli(b.At).UTC(), b.Places
	case clearedSuffix:
		var b clearedBody
		err = d.Decode(&b)
		e.ClearedAt, e.Cleared = time.UnixMilli(b.At).UTC(), b.Places
	}
	return false, err
}

// keptOrder is an acknowledged order as it is kept outside the store (rule E-R11).
type keptOrder struct {
	ID string `json:"id"`
	orderBody
	Positions []Position `json:"positions"`
}

// Encode returns an acknowledged order as it is kept outside the store.
func Encode(e *Order) ([]byte, error) {
	return json.Marshal(keptOrder{e.ID, e.body(), e.Positions()})
}

// Decode returns the order that Encode has encoded.
func Decode(b []byte) (*Order, error) {
	var k keptOrder
	if err := json.Unmarshal(b, &k); err != nil {
		return nil, fmt.Errorf("an order of erasure: %w", err)
	}
	if k.ID == "" || k.Tenant == "" || k.From >= k.To {
		return nil, fmt.Errorf("an order of erasure without id, tenant or days: %.200q", b)
	}
	return k.order(k.ID).Acknowledged(k.Positions), nil
}

func (e *Order) body() orderBody {
	return orderBody{e.Tenant, e.Device, e.From, e.To, e.By, e.At.UnixMilli(), e.Account}
}

func (b orderBody) order(id string) *Order {
	return &Order{ID: id, Tenant: b.Tenant, Device: b.Device, From: b.From, To: b.To, By: b.By,
		At: time.UnixMilli(b.At).UTC(), Account: b.Account}
}

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
// partition of each stream. From then on the readings of the order are gone. It fails with ErrVoid where Void
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
// the order yet. It comes before the order is acknowledged: from then on ingesters write the entries of the devices
// again, with a time behind that of the page that forgets. The role provision merges pages and leaves out the forgotten
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
