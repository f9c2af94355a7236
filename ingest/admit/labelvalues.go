package admit

import (
	"fmt"
	"strings"
	"time"

	"binnacle/ingest/queue"
	"binnacle/internal/catalog"
	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
)

// labelValues is which values the labels of a tenant's readings have, where their number is bounded: the values that
// the catalog lists, wherever they were read, and the values that were taken here and that the catalog did not list
// when it was asked last. Until its first answer only the values taken here are known.
type labelValues struct {
	listed *catalog.LabelValues // nil until the catalog's first answer
	own    map[string]map[uint64]struct{}
	bytes  int64
	asked  time.Time // begin of the last question that the catalog has answered
	queued bool      // the tenant waits for its next question
}

// What a label and a value take here.
const (
	labelNameBytes  = 128
	labelValueBytes = 24
)

// mostLabels bounds the labels of a tenant where their values are bounded: else names would do what values may not.
const mostLabels = 1000

// labelLookupEvery is the least time between two questions to the catalog about a tenant. For twice as long what it
// said counts; after that it may lack what others have taken since, and nothing is refused before it has been asked
// again.
const labelLookupEvery = 30 * time.Second

// exceeded says why a reading's labels are too many values, empty if they are not. v may be nil.
func (v *labelValues) exceeded(most *limits, labels telemetry.Labels, now time.Time) string {
	if v == nil {
		return ""
	}
	for _, x := range labels {
		if v.has(x.Name, catalog.ValueHash(x.Value)) {
			continue
		}
		own, all := len(v.own[x.Name]), v.count(x.Name)
		switch {
		case own >= most.labelValues || v.isRecent(now) && all >= most.labelValues:
			return fmt.Sprintf("label %s has %d values, and %q would be one more", clipped(x.Name), all, clipped(x.Value))
		case all == 0 && v.names() >= mostLabels:
			return fmt.Sprintf("there are %d labels, and %s would be one more", v.names(), clipped(x.Name))
		}
	}
	return ""
}

// isRecent reports whether what the catalog said is young enough for a verdict.
func (v *labelValues) isRecent(now time.Time) bool {
	return v.listed != nil && now.Sub(v.asked) < 2*labelLookupEvery
}

func (v *labelValues) has(name string, value uint64) bool {
	if v.listed != nil && v.listed.Has(name, value) {
		return true
	}
	_, ok := v.own[name][value]
	return ok
}

func (v *labelValues) count(name string) int {
	n := len(v.own[name])
	if v.listed != nil {
		n += v.listed.Len(name)
	}
	return n
}

// names returns how many labels there are; those with values here that the catalog lacks count twice.
func (v *labelValues) names() int {
	n := len(v.own)
	if v.listed != nil {
		n += v.listed.Names()
	}
	return n
}

// clipped returns a text that is short enough for a sentence.
func clipped(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// labelLookups asks the catalog about the labels of tenants, one after the other.
type labelLookups struct {
	queue   queue.FIFO[*tenantState]
	running bool
	retry   retry.Backoff
}

// push queues a question to the catalog about a tenant's labels.
func (q *labelLookups) push(t *tenantState) {
	if v := t.values; v != nil && !v.queued {
		v.queued = true
		q.queue.Push(t)
	}
}

func (l *Limits) countLabels(t *tenantState, labels telemetry.Labels) {
	v := t.values
	if v == nil {
		v = &labelValues{own: map[string]map[uint64]struct{}{}}
		t.values = v
		l.labels.push(t)
	}
	for _, x := range labels {
		n := catalog.ValueHash(x.Value)
		if v.has(x.Name, n) {
			continue
		}
		if v.own[x.Name] == nil {
			v.own[strings.Clone(x.Name)] = map[uint64]struct{}{}
			l.tenants.growLabels(v, labelNameBytes)
		}
		v.own[x.Name][n] = struct{}{}
		l.tenants.growLabels(v, labelValueBytes)
		l.labels.push(t)
	}
}

// growLabels counts the memory of some more, or less, of labels.
func (x *tenants) growLabels(v *labelValues, bytes int64) {
	v.bytes += bytes
	x.bytes += bytes
}

func (x *tenants) dropLabels(t *tenantState) {
	if t.values != nil {
		x.growLabels(t.values, -t.values.bytes)
		t.values = nil
	}
}

// LabelLookup asks which values the labels of a tenant's readings have, by its catalog.
type LabelLookup struct {
	Tenant string
	tenant *tenantState
	began  time.Time

	// Values is the answer.
	Values *catalog.LabelValues
}

// NextLookup returns the lookup of the label values of the next tenant in turn, nil while no lookup is due.
func (l *Limits) NextLookup(now time.Time, snapshot *control.Snapshot) *LabelLookup {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := &l.labels
	for n := q.queue.Len(); n > 0 && !q.running && q.retry.Open(now); n-- {
		t := q.queue.Pop()
		if t.values != nil {
			l.refresh(t, snapshot) // no reading does that for a tenant that has no limits any more
		}
		switch v := t.values; {
		case v == nil || l.tenants.all[t.name] != t: // it is gone
		case t.limits == nil || t.limits.labelValues == 0:
			l.tenants.dropLabels(t)
		case now.Sub(v.asked) < labelLookupEvery:
			q.queue.Push(t)
		default:
			q.running, v.queued = true, false
			return &LabelLookup{Tenant: t.name, tenant: t, began: now}
		}
	}
	return nil
}

// LookupFailed takes a LabelLookup back that failed: it is made again, not before the time that the store said.
func (l *Limits) LookupFailed(j *LabelLookup, after time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.labels.running = false
	l.labels.retry.Fail(now, l.cfg.Retry(after))
	l.labels.push(j.tenant)
}

// LookedUp takes a LabelLookup back.
func (l *Limits) LookedUp(j *LabelLookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.labels.running, l.labels.retry = false, retry.Backoff{}
	t := j.tenant
	v := t.values
	if v == nil {
		return
	}
	v.listed, v.asked = j.Values, j.began
	full := false
	for name, own := range v.own {
		for value := range own {
			if v.listed.Has(name, value) {
				delete(own, value)
				l.tenants.growLabels(v, -labelValueBytes)
			}
		}
		if len(own) == 0 {
			delete(v.own, name)
			l.tenants.growLabels(v, -labelNameBytes)
		}
		full = full || t.limits != nil && v.count(name) >= t.limits.labelValues
	}
	if full || t.limits != nil && v.listed.MaxLen() >= t.limits.labelValues {
		l.labels.push(t) // so that a verdict is not late when the next new value comes
	}
}
