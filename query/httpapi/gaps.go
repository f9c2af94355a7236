package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
	"binnacle/query"
	"binnacle/query/diagnose/gaps"
)

var gapsParameters = []string{"device", "from", "to", "expect", "sequence", "timeout"}

const (
	minExpect = time.Millisecond // event times are whole ones
	// maxGapDays bounds a question about a device: whole days are read.
	maxGapDays = 31
	maxExpect  = 7 * duration.Day
)

// gap is gaps.Gap on the wire.
type gap struct {
	From      int64  `json:"from"`
	To        int64  `json:"to"`
	Began     int64  `json:"began,omitempty"`
	Missing   int    `json:"missing"`
	Verdict   string `json:"verdict"`
	Reason    string `json:"reason,omitempty"`
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	Offset    *int64 `json:"offset,omitempty"`
	Arrived   *int64 `json:"arrived,omitempty"`
	Detail    string `json:"detail,omitempty"`
	Fix       string `json:"fix,omitempty"`
}

// gaps answers the holes in a device's readings, a verdict each.
func (a *api) gaps(w *response, r *http.Request, tenant string) error {
	p := parse(r, gapsParameters)
	now := a.cfg.Now()
	q := query.GapsRequest{Tenant: tenant, Device: p.values.Get("device"), Expect: p.duration("expect", 0, maxExpect),
		Sequence: a.cfg.Sequence}
	if p.values.Has("sequence") {
		q.Sequence = p.values.Get("sequence")
	}
	if q.Expect > 0 && q.Expect < minExpect {
		p.fail("expect", "%.100q is less than %s", p.values.Get("expect"), minExpect)
	}
	if err := telemetry.CheckName("metric", q.Sequence); q.Sequence != "" && err != nil {
		p.fail("sequence", "%v", err)
	}
	if err := telemetry.CheckDevice(q.Device); err != nil {
		p.fail("device", "%v", err)
	}
	q.Range = p.lastDay(now, clamp(now))
	if q.Range.To-q.Range.From > maxGapDays*telemetry.DayMillis {
		p.fail("from", "more than %d days before to", maxGapDays)
	}
	if done, err := w.beginJSON(p); done {
		return err
	}
	var c gaps.Evidence
	var res query.Result
	var diagnosis gaps.Diagnosis
	err := a.admit(r.Context(), tenant, func(ctx context.Context) (err error) {
		if c, res, err = a.cfg.Querier.Evidence(ctx, q); err == nil {
			c.Refusals, c.Nameless, c.DeadLetters = a.cfg.Rejected.Of(tenant, q.Device, c.Judged())
			diagnosis = gaps.Diagnose(c)
		}
		return err
	})
	if err != nil {
		return err
	}
	if diagnosis.TooMany {
		return &parameterError{"expect", fmt.Sprintf("%s makes more than %d holes: take a longer one, or a shorter range",
			duration.String(diagnosis.Expect), gaps.MaxGaps)}
	}
	out := struct {
		Device     string   `json:"device"`
		From       int64    `json:"from"`
		To         int64    `json:"to"`
		Expect     *int64   `json:"expect_ms"`
		Learnt     bool     `json:"learnt"`
		Readings   int      `json:"readings"`
		Gaps       []gap    `json:"gaps"`
		Complete   bool     `json:"complete"`
		Incomplete []string `json:"incomplete,omitempty"`
		Stats      readCost `json:"stats"`
	}{Device: q.Device, From: c.Range.From, To: c.Range.To, Learnt: diagnosis.Inferred, Readings: diagnosis.Readings,
		Gaps: make([]gap, len(diagnosis.Gaps)), Incomplete: res.Incomplete,
		Stats: readCost{res.Stats.RequestUnits, res.Stats.Documents}}
	for i := range diagnosis.Gaps {
		out.Gaps[i] = gapOf(&diagnosis.Gaps[i])
	}
	if ms := diagnosis.Expect.Milliseconds(); ms > 0 {
		out.Expect = &ms
	} else if !c.Range.Empty() {
		out.Incomplete = append(out.Incomplete, "too few readings to estimate how often the device reports: "+
			"set the parameter expect")
	}
	if c.DeadLetters != "" {
		out.Incomplete = append(out.Incomplete, c.DeadLetters)
	}
	out.Complete = len(out.Incomplete) == 0
	return encode(w, out)
}

func gapOf(g *gaps.Gap) gap {
	out := gap{From: g.From, To: g.To, Began: g.Began, Missing: g.Missing, Verdict: string(g.Verdict),
		Reason: string(g.Reason), Detail: g.Detail}
	if g.Verdict == gaps.Refused {
		out.Topic = g.Topic
		out.Partition, out.Offset, out.Fix = &g.Partition, &g.Offset, gaps.Remedy(g.Reason)
	}
	if g.Verdict == gaps.Late && g.Arrived > 0 {
		out.Arrived = &g.Arrived
	}
	return out
}
