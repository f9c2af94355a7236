// Package erasure has the orders to erase readings: what they cover, and the documents that keep them.
package erasure

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
