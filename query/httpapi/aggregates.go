package httpapi

import (
	"net/http"
	"slices"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/merge"
)

// Bounds of the steps of aggregates.
const (
	maxStep    = 366 * 24 * time.Hour
	maxBuckets = 11_000 // for each series
)

// statisticFields has the statistics of a series and bucket a record.
var statisticFields = fields{{name: "device", kind: nameField}, {name: "start", kind: instantField},
	{name: "labels", kind: labelsField}, {name: "metric", kind: nameField}, {name: "type", kind: nameField},
	{name: "count", kind: countField}, {name: "min", kind: figureField}, {name: "max", kind: figureField},
	{name: "sum", kind: figureField}, {name: "avg", kind: figureField}, {name: "first", kind: figureField},
	{name: "last", kind: figureField}, {name: "nan", kind: oddField}, {name: "pos_inf", kind: oddField},
	{name: "neg_inf", kind: oddField}}

func (a *api) aggregates(w *response, r *http.Request, tenant string) error {
	p := parse(r, aggregatesParameters, "device", "metric", "aggregate", "by")
	q := a.request(p, tenant)
	p.align(&q.Range)
	if p.isGrouped() {
		return a.grouped(w, p, q)
	}
	step := p.step()
	list := records{w: w, asked: q, name: "aggregates", fields: statisticFields}
	list.format, list.limit = p.format(parquetFormat)
	if p.err == nil && step > 0 && (q.Range.To-q.Range.From)/step.Milliseconds() >= maxBuckets {
		p.fail("step", "divides the range into more than %d buckets; choose a longer step", maxBuckets)
	}
	if p.err != nil {
		return p.err
	}
	return a.list(&list, r, func() (query.Result, error) {
		return a.cfg.Querier.Statistics(r.Context(), q, step, func(s query.Statistic) error {
			if step == 0 {
				s.Start = q.Range.From
			}
			return list.record(textCell(s.Device), intCell(s.Start), labelsCell(s.Labels), textCell(s.Metric),
				textCell(s.Kind.String()), intCell(int64(s.Count)), valueCell(s.Min), valueCell(s.Max), valueCell(s.Sum),
				valueCell(average(&s)), valueCell(s.First), valueCell(s.Last), intCell(int64(s.NaN)),
				intCell(int64(s.PosInf)), intCell(int64(s.NegInf)))
		})
	})
}

// align widens a range to multiples of the step since 1970 UTC, where align=step asks for it: then buckets of several
// requests join.
func (p *params) align(r *telemetry.Range) {
	if p.word("align", "range", "step") == "range" || p.err != nil {
		return
	}
	if !p.values.Has("step") || slices.Contains(merge.Units, merge.Unit(p.values.Get("step"))) || p.values.Has("tz") {
		p.fail("align", "is allowed only with a step that is a duration: days, weeks and months of the calendar are aligned")
		return
	}
	if step := p.step().Milliseconds(); p.err == nil {
		r.From -= r.From % step
		r.To = min(r.To+(step-r.To%step)%step, telemetry.MaxMillis)
	}
}

// average returns the sum divided by the count, no value where there is no sum.
func average(s *query.Statistic) telemetry.Value {
	switch s.Sum.Kind() {
	case telemetry.Float:
		return telemetry.FloatValue(s.Sum.Float() / float64(s.Count))
	case telemetry.Int:
		return telemetry.FloatValue(float64(s.Sum.Int()) / float64(s.Count))
	}
	return telemetry.Value{}
}
