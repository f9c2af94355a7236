package engine

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/kv"
	"binnacle/internal/lab/emulator/refusal"
)

// owned is an offer with what it belongs to: a container, or a database.
type owned struct {
	offer     *offer
	database  *database
	container *Container // nil for the offer of a database
}

// offers lists all offers. mu is held.
func (a *Account) offers() []owned {
	var out []owned
	for _, db := range a.databases {
		if db.record.Offer != nil {
			out = append(out, owned{db.record.Offer, db, nil})
		}
		for _, co := range db.containers {
			if co.record.Offer != nil {
				out = append(out, owned{co.record.Offer, db, co})
			}
		}
	}
	return out
}

func (a *Account) offer(id string) (owned, error) {
	for _, o := range a.offers() {
		if o.offer.ID == id {
			return o, nil
		}
	}
	return owned{}, refusal.NotFound("the offer %q does not exist", id)
}

// Offers returns the documents of all offers.
func (a *Account) Offers() (out [][]byte, err error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if err := a.Capacity.offersRefused(); err != nil {
		return nil, err
	}
	for _, o := range a.offers() {
		out = append(out, o.offer.document())
	}
	return out, nil
}

// OfferState is an offer in its wire form, with the state that answers report about it.
type OfferState struct {
	Resource
	Floor   float64 // the lowest throughput that it may be set to
	Pending bool    // its throughput waits for splits
}

func (o owned) state() OfferState {
	return OfferState{Resource{Body: o.offer.document(), ETag: o.offer.ETag}, o.floor(), o.offer.Pending != nil}
}

// Offer returns an offer.
func (a *Account) Offer(id string) (OfferState, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if err := a.Capacity.offersRefused(); err != nil {
		return OfferState{}, err
	}
	o, err := a.offer(id)
	if err != nil {
		return OfferState{}, err
	}
	return o.state(), nil
}

// ReplaceOffer sets a throughput, if match is the offer's ETag or empty, and divides it over the physical
// partitions: at once, or when there are enough of them.
func (a *Account) ReplaceOffer(id string, t Throughput, match string, now time.Time) (OfferState, error) {
	if ok, retry := a.pace.Take(now); !ok && !a.cfg.Rules.Unlimited {
		return OfferState{}, refusal.TooMany(retry, 0,
			"the throughput of the account's databases and containers has been replaced too often in the last 5 minutes")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.Capacity.offersRefused(); err != nil {
		return OfferState{}, err
	}
	o, err := a.offer(id)
	if err != nil {
		return OfferState{}, err
	}
	if match != "" && match != o.offer.ETag {
		return OfferState{}, refusal.PreconditionFailed()
	}
	next, err := o.offer.replaced(t, len(o.budgets()), o.gigabytes(), now, now.Add(a.cfg.SplitTakes))
	if err != nil {
		return OfferState{}, err
	}
	if err := a.putOffer(o, next); err != nil {
		return OfferState{}, err
	}
	o.offer = next
	if next.Pending != nil {
		a.schedule(next.Pending.Due)
	}
	o.divide()
	return o.state(), nil
}

func (a *Account) putOffer(o owned, next *offer) error {
	b := new(kv.Batch)
	if o.container == nil {
		r := o.database.record
		r.Offer = next
		if err := a.put(b, databaseKey(r.ID), r); err != nil {
			return err
		}
		o.database.record = r
		return nil
	}
	r := o.container.record
	r.Offer = next
	if err := a.put(b, containerKey(o.database.id, r.Definition.ID), r); err != nil {
		return err
	}
	o.container.record = r
	return nil
}

func (o owned) budgets() []*budget.Budget {
	if o.container == nil {
		return o.database.budgets
	}
	parts := o.container.parts()
	out := make([]*budget.Budget, len(parts))
	for i, p := range parts {
		out[i] = p.budget
	}
	return out
}

// floor returns the lowest throughput that the offer may be set to.
func (o owned) floor() float64 {
	return ru.Floor(o.gigabytes(), o.offer.Highest, o.offer.Autoscale)
}

func (o owned) gigabytes() float64 {
	if o.container != nil {
		return o.container.gigabytes()
	}
	total := 0.0
	for _, co := range o.database.containers {
		if co.record.Offer == nil {
			total += co.gigabytes()
		}
	}
	return total
}

// quota returns why the account takes no more databases or containers, or nil. The status of the
// service for a full account is not published; 403 is what it gives for its other quotas. a.mu is held.
func (a *Account) quota() error {
	n := len(a.databases)
	for _, db := range a.databases {
		n += len(db.containers)
	}
	if most := a.cfg.Limits.Containers; n >= most {
		return refusal.Forbidden(0, "the account has %d databases and containers, the most it may", n)
	}
	return nil
}

// quotaToShare returns why no more containers may share the throughput of a database. a.mu is held.
func (db *database) quotaToShare(most int) error {
	n := 0
	for _, co := range db.containers {
		if co.record.Offer == nil {
			n++
		}
	}
	if n >= most {
		return refusal.Forbidden(refusal.SubSharedFull,
			"%d containers share the throughput of the database %q, the most that may; another needs throughput of its own",
			n, db.id)
	}
	return nil
}

// offer is the throughput of a container, or of a database with containers that share it.
type offer struct {
	ID          string  `json:"id"`
	ETag        string  `json:"_etag"`
	TS          int64   `json:"_ts"`
	ResourceRID string  `json:"offerResourceId"`
	Resource    string  `json:"resource"`
	RUs         float64 `json:"rus"` // manual RU/s, or the autoscale maximum
	Autoscale   bool    `json:"autoscale"`
	Highest     float64 `json:"highest"` // the most RUs ever was
	// Pending is the throughput that running splits of physical partitions prepare for; nil while no split
	// runs. The offer accepts no other change until then.
	Pending *replacement `json:"pending,omitempty"`
	// AutoUpgrade says how the autoscale maximum should grow: kept as it was sent, and not modelled.
	AutoUpgrade json.RawMessage `json:"autoUpgrade,omitempty"`
}

// Throughput is what a client asks for: in headers when it creates, in a body when it replaces.
type Throughput struct {
	RUs       float64
	Autoscale bool
	// AutoUpgrade is the growth rule of an autoscale offer; may be nil.
	AutoUpgrade json.RawMessage
}

// defaultRUs is the manual throughput of a container that is created without any, in a database
// without any (Azure Cosmos DB REST reference, create a collection).
const defaultRUs = 400

// maxRUs is the most RU/s of a container without a support ticket (Azure Cosmos DB docs,
// concepts-limits).
const maxRUs = 1_000_000

// check refuses a throughput that is not in its range, or no whole number of steps.
func (t Throughput) check(floor float64) error {
	if t.RUs < floor {
		return refusal.BadRequest("Requested throughput %v is less than required minimum throughput %v", t.RUs, floor)
	}
	step := ru.Step(t.Autoscale)
	if t.RUs > maxRUs || math.Mod(t.RUs, step) != 0 {
		return refusal.BadRequest("the throughput %v RU/s must be from %v to %d in steps of %v", t.RUs, floor, maxRUs, step)
	}
	return nil
}

// checkNew checks the throughput of a new container or database: nil is right, too.
func (t *Throughput) checkNew() error {
	if t == nil {
		return nil
	}
	return t.check(ru.Floor(0, 0, t.Autoscale))
}

func newOffer(t Throughput, resourceRID, resource string, ts int64) *offer {
	return &offer{
		ID:   hex.EncodeToString(random()), // lower case: clients sign requests with it lowered
		ETag: newETag(ts), TS: ts, ResourceRID: resourceRID, Resource: resource,
		RUs: t.RUs, Autoscale: t.Autoscale, AutoUpgrade: t.AutoUpgrade, Highest: t.RUs,
	}
}

// document returns the offer on the wire. An autoscale offer carries the throughput it is at as well; an
// idle container is at a tenth of its maximum.
func (o *offer) document() []byte {
	content := map[string]any{"offerThroughput": o.RUs}
	if o.Autoscale {
		settings := map[string]any{"maxThroughput": o.RUs}
		if o.AutoUpgrade != nil {
			settings["autoUpgradePolicy"] = o.AutoUpgrade
		}
		content = map[string]any{"offerThroughput": o.RUs / 10, "offerAutopilotSettings": settings}
	}
	return encoded(map[string]any{
		"id": o.ID, "_rid": o.ID, "_self": "offers/" + o.ID + "/", "_etag": o.ETag, "_ts": o.TS,
		"offerResourceId": o.ResourceRID, "resource": o.Resource,
		"offerType": "Invalid", "offerVersion": "V2", "content": content,
	})
}

// replaceable returns why the offer does not take a throughput, whatever it is, or nil. The service
// names the refusal of manual throughput for an autoscale offer 403/1015 (cosmos_status.rs); for the
// other direction no code is published.
func (o *offer) replaceable(t Throughput) error {
	switch {
	case o.Pending != nil:
		return refusal.Locked("the throughput is being replaced: physical partitions are split for %.0f RU/s", o.Pending.RUs)
	case o.Autoscale && !t.Autoscale:
		return refusal.Forbidden(refusal.SubAutoscaleOffer,
			"manual and autoscale throughput cannot be exchanged through the data plane")
	case t.Autoscale && !o.Autoscale:
		return refusal.BadRequest("manual and autoscale throughput cannot be exchanged through the data plane")
	}
	return nil
}

// replaced returns the offer with a new throughput, given how many physical partitions it has and how many
// GB it stores. One that needs more partitions is pending until due.
func (o *offer) replaced(t Throughput, partitions int, gb float64, now, due time.Time) (*offer, error) {
	if err := o.replaceable(t); err != nil {
		return nil, err
	}
	if err := t.check(ru.Floor(gb, o.Highest, o.Autoscale)); err != nil {
		return nil, err
	}
	next := *o
	next.ETag, next.TS, next.AutoUpgrade = newETag(now.Unix()), now.Unix(), t.AutoUpgrade
	if t.RUs > float64(partitions)*ru.PartitionRUs {
		next.Pending = &replacement{RUs: t.RUs, Due: due.UnixNano()}
		return &next, nil
	}
	next.RUs, next.Highest = t.RUs, max(o.Highest, t.RUs)
	return &next, nil
}
