package rejected

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
	"binnacle/query/diagnose/gaps"
)

// Request selects refused readings.
type Request struct {
	Tenant  string          // empty for all, and for readings of no known tenant: for operators
	Devices []string        // in order, each once; nil is any
	Reasons []string        // nil is any
	Range   telemetry.Range // time of the refusal
	Samples int             // how many of the newest to return for each reason
}

// Answer is the refused readings that a request asks for, as the API answers them.
type Answer struct {
	Groups     []Group `json:"rejected"`             // one for each reason
	Complete   bool    `json:"complete"`             // all that was refused in the range is in it
	Incomplete string  `json:"incomplete,omitempty"` // why not
}

// Group is the refused readings of one reason.
type Group struct {
	Reason  decode.Reason `json:"reason"`
	Count   int           `json:"count"`
	First   int64         `json:"first"` // times of the first and last refusal, ms
	Last    int64         `json:"last"`
	Samples []Sample      `json:"samples"`
}

// Sample is one of them.
type Sample struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Index     int32  `json:"index"`
	At        int64  `json:"at"`               // time of the refusal, ms
	Tenant    string `json:"tenant,omitempty"` // for operators
	Device    string `json:"device,omitempty"`
	Time      *int64 `json:"ts,omitempty"` // event time, ms; nil is not known
	Detail    string `json:"detail,omitempty"`
	Payload   string `json:"payload"`
	Base64    bool   `json:"base64,omitempty"` // the payload is no text, and base64 here
	Truncated bool   `json:"cut,omitempty"`    // there is more of the payload
}

// Rejected answers a request from memory.
func (x *Index) Rejected(q Request) Answer {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := Answer{Groups: []Group{}}
	at := map[decode.Reason]*Group{}
	for i := len(x.entries) - 1; i >= 0; i-- {
		e := &x.entries[i]
		if !q.selects(e) || x.isErased(e) {
			continue
		}
		g := at[e.reason]
		if g == nil {
			g = &Group{Reason: e.reason, First: e.at, Last: e.at, Samples: []Sample{}}
			at[e.reason] = g
		}
		g.Count += e.count
		g.First, g.Last = min(g.First, e.at), max(g.Last, e.at)
		if e.count == 1 && len(g.Samples) < q.Samples {
			g.Samples = append(g.Samples, e.sample(q.Tenant == ""))
		}
	}
	for _, g := range at {
		a.Groups = append(a.Groups, *g)
	}
	slices.SortFunc(a.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(string(a.Reason), string(b.Reason)))
	})
	a.Incomplete = x.incomplete(q.Range.From)
	a.Complete = a.Incomplete == ""
	return a
}

func (q *Request) selects(e *entry) bool {
	return (q.Tenant == "" || e.tenant == q.Tenant) && q.Range.Contains(e.at) && q.selectsDevice(e.device) &&
		(len(q.Reasons) == 0 || slices.Contains(q.Reasons, string(e.reason)))
}

// isErased reports whether an order covers a dead letter. One that names no device is of that of its key.
func (x *Index) isErased(e *entry) bool {
	tenant, device := e.tenant, e.device
	if device == "" {
		if of, named, ok := strings.Cut(e.key, "/"); ok && (tenant == "" || tenant == of) {
			tenant, device = of, named
		}
	}
	return tenant != "" && x.cfg.Erasures != nil && x.cfg.Erasures(tenant).Hides(device, e.time, e.published)
}

func (q *Request) selectsDevice(device string) bool {
	if q.Devices == nil {
		return true
	}
	_, found := slices.BinarySearch(q.Devices, device)
	return found
}

// incomplete returns why what was refused since may not all be known, empty if it is. The caller holds mu.
func (x *Index) incomplete(since int64) string {
	switch {
	case x.err == errReading:
		return "the dead letters are being read"
	case x.err != nil:
		return "the dead letters can't be read now"
	case since < x.completeSince:
		return "of what was refused earlier only a part is kept"
	}
	return ""
}

func (e *entry) sample(forOperators bool) Sample {
	out := Sample{Topic: e.id.topic, Partition: e.id.Partition, Offset: e.id.Offset, Index: int32(e.index), At: e.at,
		Device: e.device, Detail: e.detail, Payload: e.payload, Truncated: e.truncated}
	if forOperators {
		out.Tenant = e.tenant
	}
	if at := e.time; at >= 0 {
		out.Time = &at
	}
	if !utf8.ValidString(e.payload) {
		out.Payload, out.Base64 = base64.StdEncoding.EncodeToString([]byte(e.payload)), true
	}
	return out
}

// Of returns what was refused of a device's readings in a range, by their event times or when they were published. A
// record that names no tenant counts where its key is the device's, without its detail. nameless is when records were
// refused that name nothing, and incomplete why that may not be all.
func (x *Index) Of(tenant, device string, r telemetry.Range) (all []gaps.Refusal, nameless []int64, incomplete string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := tenant + "/" + device
	for i := range x.entries {
		e := &x.entries[i]
		switch {
		case x.isErased(e):
		case e.keyMatches(tenant, key) && e.time < 0 && e.published >= r.From, // it may have come late
			e.keyMatches(tenant, key) && r.Contains(e.time):
			all = append(all, gaps.Refusal{Time: e.time, Published: e.published, Reason: e.reason, Topic: e.id.topic,
				Partition: e.id.Partition, Offset: e.id.Offset})
		case !r.Contains(e.published) && !r.Contains(e.time):
		case e.tenant == tenant && e.device == device:
			all = append(all, gaps.Refusal{Time: e.time, Published: e.published, Reason: e.reason, Topic: e.id.topic,
				Partition: e.id.Partition, Offset: e.id.Offset, Detail: e.detail})
		case e.tenant == "" && !strings.Contains(e.key, "/") || e.tenant == tenant && e.device == "":
			nameless = append(nameless, e.published)
		}
	}
	return all, nameless, x.incomplete(r.From)
}

// keyMatches reports whether a dead letter that names no device is of a device by its key.
func (e *entry) keyMatches(tenant, key string) bool {
	return e.device == "" && (e.tenant == "" || e.tenant == tenant) && e.key == key
}

// Steps returns in which steps of a range of event times readings of a tenant were refused, by device: true for each
// such [r.From + k*step, r.From + (k+1)*step). incomplete is why that may not be all.
func (x *Index) Steps(tenant string, r telemetry.Range, step int64) (out map[string]map[int]bool, incomplete string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	out = map[string]map[int]bool{}
	for i := range x.entries {
		e := &x.entries[i]
		if e.tenant != tenant || e.device == "" || !r.Contains(e.time) || x.isErased(e) {
			continue
		}
		if out[e.device] == nil {
			out[e.device] = map[int]bool{}
		}
		out[e.device][int((e.time-r.From)/step)] = true
	}
	return out, x.incomplete(r.From)
}
