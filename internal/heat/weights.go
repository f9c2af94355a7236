package heat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/bytesread"
	"binnacle/sharding"
)

// Buckets is the number of sums by hash that devices lie in that are not listed: a device is in bucket
// sharding.GroupOf(device, Buckets). It has many divisors, so that sums by hash mod S follow exactly for most S.
const Buckets = 5040

// MaxDevices bounds the devices that a document lists by name: the heaviest.
const MaxDevices = 4096

// Weight is the RU that a device took in some time.
type Weight struct {
	Device string
	RUs    float64
}

// Weights is what the devices of a tenant took in a part of a UTC day. Writer is the process that counted; "" for all.
type Weights struct {
	Tenant   string
	Day      telemetry.Day
	From, To int64 // ms
	Writer   string
	// Devices are sorted by name.
	Devices []Weight
	Rest    []float64 // RU of the devices that are not listed, by bucket; nil for none
	Others  int       // devices in Rest
}

// Trim puts all devices but the most heaviest into buckets.
func (w *Weights) Trim(most int) {
	if len(w.Devices) > most {
		slices.SortFunc(w.Devices, func(a, b Weight) int {
			return cmp.Or(cmp.Compare(b.RUs, a.RUs), strings.Compare(a.Device, b.Device))
		})
		if w.Rest == nil {
			w.Rest = make([]float64, Buckets)
		}
		for _, d := range w.Devices[most:] {
			w.Rest[sharding.GroupOf(d.Device, Buckets)] += d.RUs
			w.Others++
		}
		w.Devices = slices.Clone(w.Devices[:most])
	}
	slices.SortFunc(w.Devices, func(a, b Weight) int { return strings.Compare(a.Device, b.Device) })
}

// MergeWeights returns the sum of weights of one tenant and day, of any writers and parts.
func MergeWeights(all []Weights) (out Weights) {
	devices := map[string]float64{}
	for i, w := range all {
		if i == 0 {
			out = Weights{Tenant: w.Tenant, Day: w.Day, From: w.From, To: w.To}
		}
		out.From, out.To, out.Others = min(out.From, w.From), max(out.To, w.To), out.Others+w.Others
		for _, d := range w.Devices {
			devices[d.Device] += d.RUs
		}
		if w.Rest != nil && out.Rest == nil {
			out.Rest = make([]float64, Buckets)
		}
		for b, r := range w.Rest {
			out.Rest[b] += r
		}
	}
	for device, r := range devices {
		out.Devices = append(out.Devices, Weight{device, r})
	}
	out.Trim(len(out.Devices))
	return out
}

type weightsDocument struct {
	V       int           `json:"v"`
	Type    string        `json:"type"`
	Tenant  string        `json:"tenant"`
	Day     telemetry.Day `json:"day"`
	From    int64         `json:"from"`
	To      int64         `json:"to"`
	Writer  string        `json:"writer,omitempty"`
	Devices int           `json:"devices"`
	Others  int           `json:"others,omitempty"`
	Data    string        `json:"data"`
}

const weightsType = "weights"

// Encode returns the document. It lists MaxDevices devices at most.
func (w Weights) Encode() ([]byte, error) {
	w.Trim(MaxDevices)
	c := newColumns()
	c.weights(&w)
	return json.Marshal(weightsDocument{Version, weightsType, w.Tenant, w.Day, w.From, w.To, w.Writer, len(w.Devices),
		w.Others, c.packed()})
}

// weights appends or reads columns: names, RU of each, RU of buckets.
func (c *columns) weights(w *Weights) {
	before := ""
	for i := range w.Devices {
		c.front(before, &w.Devices[i].Device)
		before = w.Devices[i].Device
	}
	for i := range w.Devices {
		c.rus(&w.Devices[i].RUs)
	}
	buckets := len(w.Rest)
	bytesread.Uint(&c.Codec, &buckets, Buckets)
	switch {
	case buckets != 0 && buckets != Buckets:
		c.Failf("%d buckets", buckets)
	case !c.Appends && buckets > 0:
		w.Rest = make([]float64, Buckets)
	}
	for i := range w.Rest {
		c.rus(&w.Rest[i])
	}
}

// DecodeWeights returns the weights of a document.
func DecodeWeights(doc []byte) (Weights, error) {
	var d weightsDocument
	if err := json.Unmarshal(doc, &d); err != nil {
		return Weights{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if d.V != Version || d.Type != weightsType {
		return Weights{}, fmt.Errorf("%w: type %q, version %d", ErrCorrupt, d.Type, d.V)
	}
	c, err := unpack(d.Data)
	if err != nil {
		return Weights{}, err
	}
	if d.Devices < 0 || d.Devices > MaxDevices || d.Others < 0 {
		return Weights{}, fmt.Errorf("%w: %d devices and %d others", ErrCorrupt, d.Devices, d.Others)
	}
	w := Weights{Tenant: d.Tenant, Day: d.Day, From: d.From, To: d.To, Writer: d.Writer, Others: d.Others}
	if d.Devices > 0 {
		w.Devices = make([]Weight, d.Devices)
	}
	c.weights(&w)
	return w, c.end()
}
