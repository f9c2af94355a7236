package cosmosemu

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/ru"
)

// offer is the throughput of a container, or of a database whose containers share it.
type offer struct {
	ID          string  `json:"id"`
	ETag        string  `json:"_etag"`
	TS          int64   `json:"_ts"`
	ResourceRID string  `json:"offerResourceId"`
	Resource    string  `json:"resource"`
	RUs         float64 `json:"rus"` // manual RU/s, or the autoscale maximum
	Autoscale   bool    `json:"autoscale"`
	Highest     float64 `json:"highest"` // the most RUs ever was
	// Pending is the throughput that physical partitions are being split for; nil when none are. No
	// other is accepted meanwhile.
	Pending *replacement `json:"pending,omitempty"`
}

// throughput is what a client asks for: in headers when it creates, in a body when it replaces.
type throughput struct {
	rus       float64
	autoscale bool
}

// defaultRUs is the manual throughput of a container that is created without any, in a database
// without any (Azure Cosmos DB REST reference, create a collection).
const defaultRUs = 400

// contentJSON is the part of an offer that says how much.
type contentJSON struct {
	Manual    *float64       `json:"offerThroughput,omitempty"`
	Autopilot *autopilotJSON `json:"offerAutopilotSettings,omitempty"`
}

type autopilotJSON struct {
	Max         float64         `json:"maxThroughput"`
	AutoUpgrade json.RawMessage `json:"autoUpgradePolicy,omitempty"`
}

// headerThroughput reads the throughput headers of a create request; nil without one.
func headerThroughput(h http.Header) (*throughput, error) {
	manual, autopilot := h.Get("X-Ms-Offer-Throughput"), h.Get("X-Ms-Cosmos-Offer-Autopilot-Settings")
	switch {
	case manual != "" && autopilot != "":
		return nil, refusal.BadRequest("manual and autoscale throughput exclude each other")
	case manual != "":
		rus, err := strconv.ParseFloat(manual, 64)
		if err != nil {
			return nil, refusal.BadRequest("the throughput %q is not a number", manual)
		}
		t := throughput{rus: rus}
		return &t, t.check(400)
	case autopilot != "":
		var a autopilotJSON
		if err := json.Unmarshal([]byte(autopilot), &a); err != nil {
			return nil, refusal.BadRequest("the autoscale settings %q are not JSON", autopilot)
		}
		t := throughput{rus: a.Max, autoscale: true}
		return &t, t.check(1000)
	}
	return nil, nil
}

// maxRUs is the most RU/s of a container without a support ticket (Azure Cosmos DB docs,
// concepts-limits).
const maxRUs = 1_000_000

func (t throughput) check(floor float64) error {
	step := ru.Step(t.autoscale)
	if t.rus < floor || t.rus > maxRUs || math.Mod(t.rus, step) != 0 {
		return refusal.BadRequest("the throughput %v RU/s must be from %v to %d in steps of %v", t.rus, floor, maxRUs, step)
	}
	return nil
}

func newOffer(t throughput, resourceRID, resource string, ts int64) *offer {
	return &offer{
		ID: newOfferID(), ETag: newETag(), TS: ts, ResourceRID: resourceRID, Resource: resource,
		RUs: t.rus, Autoscale: t.autoscale, Highest: t.rus,
	}
}

// self is the link of an offer; SDKs address it by this.
func (o *offer) self() string { return "offers/" + o.ID + "/" }

// document is the offer on the wire. An autoscale offer carries the throughput it is at as well; an
// idle container is at a tenth of its maximum.
func (o *offer) document() []byte {
	content := contentJSON{Manual: &o.RUs}
	if o.Autoscale {
		now := o.RUs / 10
		content = contentJSON{Manual: &now, Autopilot: &autopilotJSON{Max: o.RUs}}
	}
	b, err := json.Marshal(map[string]any{
		"id": o.ID, "_rid": o.ID, "_self": o.self(), "_etag": o.ETag, "_ts": o.TS,
		"offerResourceId": o.ResourceRID, "resource": o.Resource,
		"offerType": "Invalid", "offerVersion": "V2", "content": content,
	})
	if err != nil {
		panic("cosmosemu: encode an offer: " + err.Error()) // plain numbers and strings
	}
	return b
}

// replaceable tells why the offer does not take a throughput, whatever it is, or gives nil. The service
// names the refusal of manual throughput for an autoscale offer 403/1015 (cosmos_status.rs); for the
// other direction no code is published.
func (o *offer) replaceable(t throughput) error {
	switch {
	case o.Pending != nil:
		return refusal.Locked("the throughput is being replaced: physical partitions are split for %.0f RU/s", o.Pending.RUs)
	case o.Autoscale && !t.autoscale:
		return refusal.Forbidden(refusal.SubAutoscaleOffer, "manual and autoscale throughput cannot be exchanged through the data plane")
	case t.autoscale && !o.Autoscale:
		return refusal.BadRequest("manual and autoscale throughput cannot be exchanged through the data plane")
	}
	return nil
}

// replaced is the offer with a new throughput, given how many physical partitions it has and how many
// GB it stores. One that needs more partitions is pending until due.
func (o *offer) replaced(t throughput, partitions int, gb float64, now, due time.Time) (*offer, error) {
	if err := o.replaceable(t); err != nil {
		return nil, err
	}
	if err := t.check(ru.Floor(gb, o.Highest, o.Autoscale)); err != nil {
		return nil, err
	}
	next := *o
	next.ETag, next.TS = newETag(), now.Unix()
	if t.rus > float64(partitions)*ru.PartitionRUs {
		next.Pending = &replacement{RUs: t.rus, Due: due.UnixNano()}
		return &next, nil
	}
	next.RUs, next.Highest = t.rus, max(o.Highest, t.rus)
	return &next, nil
}
