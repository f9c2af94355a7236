package engine

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/refusal"
)

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
