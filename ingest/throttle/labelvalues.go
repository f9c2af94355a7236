package throttle

import (
	"fmt"
	"strings"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
)

// labelValues is which values the labels of a tenant's readings have, where their number is bounded: those that the
// catalog lists, wherever they were read, and those that were taken here and that it did not list when it was asked
// last. As long as it has never answered no more is known than what was taken here.
type labelValues struct {
	listed *catalog.LabelValues // nil: it has not answered yet
	own    map[string]map[uint64]struct{}
	bytes  int64
	asked  time.Time // when the question began that it has answered last
	queued bool      // it is to be asked again
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
func (v *labelValues) exceeded(l *limits, labels telemetry.Labels, now time.Time) string {
	if v == nil {
		return ""
	}
	for _, x := range labels {
		if v.has(x.Name, catalog.ValueHash(x.Value)) {
			continue
		}
		own, all := len(v.own[x.Name]), v.count(x.Name)
		switch {
		case own >= l.labelValues || v.recent(now) && all >= l.labelValues:
			return fmt.Sprintf("label %s has %d values, and %q would be one more", clipped(x.Name), all, clipped(x.Value))
		case all == 0 && v.names() >= mostLabels:
			return fmt.Sprintf("there are %d labels, and %s would be one more", v.names(), clipped(x.Name))
		}
	}
	return ""
}

// recent reports whether what the catalog said is young enough for a verdict.
func (v *labelValues) recent(now time.Time) bool {
	return v.listed != nil && now.Sub(v.asked) < 2*labelLookupEvery
}

func (v *labelValues) has(name string, value uint64) bool {
	if v.listed != nil && v.listed.Has(name, value) {
		return true
	}
	_, ok := v.own[name][value]
	return ok
}

// count returns how many values a label has.
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

// countLabels counts the labels of a reading that is taken. The caller holds the lock.
func (th *Throttle) countLabels(t *Tenant, labels telemetry.Labels) {
	v := t.values
	if v == nil {
		v = &labelValues{own: map[string]map[uint64]struct{}{}}
		t.values = v
		th.queueLabelLookup(t)
	}
	for _, x := range labels {
		n := catalog.ValueHash(x.Value)
		if v.has(x.Name, n) {
			continue
		}
		if v.own[x.Name] == nil {
			v.own[strings.Clone(x.Name)] = map[uint64]struct{}{}
			th.growLabels(v, labelNameBytes)
		}
		v.own[x.Name][n] = struct{}{}
		th.growLabels(v, labelValueBytes)
		th.queueLabelLookup(t)
	}
}

// growLabels counts the memory of some more, or less, of labels.
func (th *Throttle) growLabels(v *labelValues, bytes int64) {
	v.bytes += bytes
	th.bytes += bytes
}

// uncountLabels drops what is known of a tenant's labels. The caller holds the lock.
func (th *Throttle) uncountLabels(t *Tenant) {
	if t.values != nil {
		th.growLabels(t.values, -t.values.bytes)
		t.values = nil
	}
}

// queueLabelLookup has the catalog asked about a tenant's labels, when it is time.
func (th *Throttle) queueLabelLookup(t *Tenant) {
	if v := t.values; v != nil && !v.queued {
		v.queued = true
		th.labelQueue.Push(t)
	}
}

// LabelLookup asks which values the labels of a tenant's readings have, by its catalog.
type LabelLookup struct {
	Tenant string
	tenant *Tenant
	began  time.Time

	Values *catalog.LabelValues // the answer
}

// NextLookup returns the lookup of the label values of the next tenant in turn, nil while there is none to make.
func (th *Throttle) NextLookup(now time.Time, snapshot *control.Snapshot) *LabelLookup {
	for n := th.labelQueue.Len(); n > 0 && !th.labelLookup && th.labelRetry.Open(now); n-- {
		t := th.labelQueue.Pop()
		if t.values != nil && t.snapshot != snapshot { // nobody else looks where nobody has limits any more
			th.cfg.Mu.Lock()
			th.refreshLimits(t, snapshot)
			th.cfg.Mu.Unlock()
		}
		switch v := t.values; {
		case v == nil || th.tenants[t.Name] != t: // it is gone
		case t.limits == nil || t.limits.labelValues == 0:
			th.cfg.Mu.Lock()
			th.uncountLabels(t)
			th.cfg.Mu.Unlock()
		case now.Sub(v.asked) < labelLookupEvery:
			th.labelQueue.Push(t)
		default:
			th.labelLookup, v.queued = true, false
			return &LabelLookup{Tenant: t.Name, tenant: t, began: now}
		}
	}
	return nil
}

// LookupFailed takes a LabelLookup back that failed: it is made again, not before the time that the store said.
func (th *Throttle) LookupFailed(j *LabelLookup, after time.Duration, now time.Time) {
	th.cfg.Mu.Lock()
	defer th.cfg.Mu.Unlock()
	th.labelLookup = false
	th.labelRetry.Fail(now, th.cfg.Retry(after))
	th.queueLabelLookup(j.tenant)
}

// LookedUp takes a LabelLookup back.
func (th *Throttle) LookedUp(j *LabelLookup) {
	th.cfg.Mu.Lock()
	defer th.cfg.Mu.Unlock()
	th.labelLookup, th.labelRetry = false, retry.Backoff{}
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
				th.growLabels(v, -labelValueBytes)
			}
		}
		if len(own) == 0 {
			delete(v.own, name)
			th.growLabels(v, -labelNameBytes)
		}
		full = full || t.limits != nil && v.count(name) >= t.limits.labelValues
	}
	if full || t.limits != nil && v.listed.MaxLen() >= t.limits.labelValues {
		th.queueLabelLookup(t) // so that a verdict is not late when the next new value comes
	}
}
