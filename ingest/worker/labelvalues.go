package worker

import (
	"fmt"
	"strings"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/control"
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

// censusEvery is the least time between two questions to the catalog about a tenant. For twice as long what it said
// counts; after that it may lack what others have taken since, and nothing is refused before it has been asked again.
const censusEvery = 30 * time.Second

// beyond says why a reading's labels are too many values, empty if they are not. v may be nil.
func (v *labelValues) beyond(l *limits, labels telemetry.Labels, now time.Time) string {
	if v == nil {
		return ""
	}
	for _, x := range labels {
		if v.has(x.Name, catalog.ValueNumber(x.Value)) {
			continue
		}
		own, all := len(v.own[x.Name]), v.count(x.Name)
		switch {
		case own >= l.labelValues || v.settled(now) && all >= l.labelValues:
			return fmt.Sprintf("label %s has %d values, and %q would be one more", clipped(x.Name), all, clipped(x.Value))
		case all == 0 && v.names() >= mostLabels:
			return fmt.Sprintf("there are %d labels, and %s would be one more", v.names(), clipped(x.Name))
		}
	}
	return ""
}

// settled reports whether what the catalog said is young enough for a verdict.
func (v *labelValues) settled(now time.Time) bool {
	return v.listed != nil && now.Sub(v.asked) < 2*censusEvery
}

func (v *labelValues) has(name string, value uint64) bool {
	if v.listed != nil && v.listed.Has(name, value) {
		return true
	}
	_, ok := v.own[name][value]
	return ok
}

// count is how many values a label has.
func (v *labelValues) count(name string) int {
	n := len(v.own[name])
	if v.listed != nil {
		n += v.listed.Len(name)
	}
	return n
}

// names is how many labels there are; those with values here that the catalog lacks count twice.
func (v *labelValues) names() int {
	n := len(v.own)
	if v.listed != nil {
		n += v.listed.Names()
	}
	return n
}

// clipped is a text that is short enough for a sentence.
func clipped(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// countLabels takes note of the labels of a reading that is taken. The caller holds the lock.
func (w *Worker) countLabels(t *tenant, labels telemetry.Labels) {
	v := t.values
	if v == nil {
		v = &labelValues{own: map[string]map[uint64]struct{}{}}
		t.values = v
		w.askCensus(t)
	}
	for _, x := range labels {
		n := catalog.ValueNumber(x.Value)
		if v.has(x.Name, n) {
			continue
		}
		if v.own[x.Name] == nil {
			v.own[strings.Clone(x.Name)] = map[uint64]struct{}{}
			w.growLabels(v, labelNameBytes)
		}
		v.own[x.Name][n] = struct{}{}
		w.growLabels(v, labelValueBytes)
		w.askCensus(t)
	}
}

// growLabels counts the memory of some more, or less, of labels.
func (w *Worker) growLabels(v *labelValues, bytes int64) {
	v.bytes += bytes
	w.devices += bytes
}

// uncountLabels drops what is known of a tenant's labels. The caller holds the lock.
func (w *Worker) uncountLabels(t *tenant) {
	if t.values != nil {
		w.growLabels(t.values, -t.values.bytes)
		t.values = nil
	}
}

// askCensus has the catalog asked about a tenant's labels, when it is time.
func (w *Worker) askCensus(t *tenant) {
	if v := t.values; v != nil && !v.queued {
		v.queued = true
		w.uncounted.push(t)
	}
}

// censuses asks the catalog about the labels of a tenant whose turn it is.
func (w *Worker) censuses(jobs []Job, now time.Time, view *control.View) []Job {
	for n := w.uncounted.len(); n > 0 && !w.counting && w.census.open(now); n-- {
		t := w.uncounted.pop()
		if t.values != nil && t.view != view { // nobody else looks where nobody has limits any more
			w.mu.Lock()
			w.refit(t, view)
			w.mu.Unlock()
		}
		switch v := t.values; {
		case v == nil || w.tenants[t.name] != t: // it is gone
		case t.limits == nil || t.limits.labelValues == 0:
			w.mu.Lock()
			w.uncountLabels(t)
			w.mu.Unlock()
		case now.Sub(v.asked) < censusEvery:
			w.uncounted.push(t)
		default:
			w.counting, v.queued = true, false
			jobs = append(jobs, &Census{Tenant: t.name, tenant: t, began: now})
		}
	}
	return jobs
}

// tallied takes a Census back.
func (w *Worker) tallied(j *Census, now time.Time) {
	w.counting = false
	t := j.tenant
	w.mu.Lock()
	defer w.mu.Unlock()
	v := t.values
	if r := j.Ended(); r.Fault != None {
		w.census.failed(now, w.cfg.RetryBackoff, maxRetry*w.cfg.RetryBackoff, r.After, w.spreads.next())
		w.askCensus(t)
		return
	}
	w.census = backoff{}
	if v == nil {
		return
	}
	v.listed, v.asked = j.Values, j.began
	full := false
	for name, own := range v.own {
		for value := range own {
			if v.listed.Has(name, value) {
				delete(own, value)
				w.growLabels(v, -labelValueBytes)
			}
		}
		if len(own) == 0 {
			delete(v.own, name)
			w.growLabels(v, -labelNameBytes)
		}
		full = full || t.limits != nil && v.count(name) >= t.limits.labelValues
	}
	if full || t.limits != nil && v.listed.Longest() >= t.limits.labelValues {
		w.askCensus(t) // so that a verdict is not late when the next new value comes
	}
}
