package emulator

import (
	"encoding/json"
	"net/http"
	"strconv"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/engine"
	"binnacle/internal/lab/emulator/refusal"
)

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
func headerThroughput(h http.Header) (*engine.Throughput, error) {
	manual, autopilot := h.Get("X-Ms-Offer-Throughput"), h.Get("X-Ms-Cosmos-Offer-Autopilot-Settings")
	switch {
	case manual != "" && autopilot != "":
		return nil, refusal.BadRequest("manual and autoscale throughput exclude each other")
	case manual != "":
		rus, err := strconv.ParseFloat(manual, 64)
		if err != nil {
			return nil, refusal.BadRequest("the throughput %q is not a number", manual)
		}
		return &engine.Throughput{RUs: rus}, nil
	case autopilot != "":
		var a autopilotJSON
		if err := json.Unmarshal([]byte(autopilot), &a); err != nil {
			return nil, refusal.BadRequest("the autoscale settings %q are not JSON", autopilot)
		}
		return &engine.Throughput{RUs: a.Max, Autoscale: true, AutoUpgrade: a.AutoUpgrade}, nil
	}
	return nil, nil
}

func (x *exchange) readOffer() (reply, error) {
	o, err := x.account.Offer(x.route.id)
	if err != nil {
		return reply{}, err
	}
	return x.offerReply(o), nil
}

func (x *exchange) offerReply(o engine.OfferState) reply {
	rep := x.metadata(o.Resource)
	rep.header = http.Header{
		"X-Ms-Cosmos-Min-Throughput": {strconv.FormatFloat(o.Floor, 'f', -1, 64)},
		"X-Ms-Offer-Replace-Pending": {strconv.FormatBool(o.Pending)},
	}
	return rep
}

func (x *exchange) replaceOffer() (reply, error) {
	var in struct {
		Content contentJSON `json:"content"`
	}
	if err := x.decodeBody(&in); err != nil {
		return reply{}, err
	}
	var t engine.Throughput
	switch {
	case in.Content.Autopilot != nil:
		a := in.Content.Autopilot
		t = engine.Throughput{RUs: a.Max, Autoscale: true, AutoUpgrade: a.AutoUpgrade}
	case in.Content.Manual != nil:
		t = engine.Throughput{RUs: *in.Content.Manual}
	default:
		return reply{}, refusal.BadRequest("the offer has neither offerThroughput nor offerAutopilotSettings")
	}
	o, err := x.account.ReplaceOffer(x.route.id, t, x.request.Header.Get("If-Match"), x.now)
	if err != nil {
		return reply{}, err
	}
	rep := x.offerReply(o)
	rep.charge = ru.MetadataChange
	return rep, nil
}
