package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsontext"
	"binnacle/query"
	"binnacle/query/merge"
)

// Bounds of the steps of aggregates.
const (
	maxStep    = 366 * 24 * time.Hour
	maxBuckets = 11_000 // for each series
)

const aggregatesHead = "start,device,labels,metric,type,count,min,max,sum,avg,first,last,nan,pos_inf,neg_inf"

// aggregatesColumns has the columns of aggregatesHead, with integers and bools as the nearest floats.
var aggregatesColumns = []column{
	instants("start"), texts("device", false), texts("labels", true), texts("metric", false), texts("type", false),
	integers("count", false), floats("min"), floats("max"), floats("sum"), floats("avg"), floats("first"), floats("last"),
	integers("nan", false), integers("pos_inf", false), integers("neg_inf", false),
}

func (a *api) aggregates(w *response, r *http.Request, tenant string) error {
	p := parse(r, aggregatesParameters, "device", "metric", "aggregate", "by")
	q := a.request(p, tenant)
	p.align(&q.Range)
	if p.isGrouped() {
		return a.grouped(w, p, q)
	}
	step := p.step()
	list := records{w: w, asked: q, name: "aggregates", head: aggregatesHead, columns: aggregatesColumns}
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
			return list.record(func(b []byte) []byte { return appendAggregate(b, &s) },
				func(b []byte) []byte { return appendAggregateCells(b, &s) },
				func(f *parquetFile) error { return f.appendAggregate(&s) })
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

// figure is a number of a statistic, none if there is nothing to say.
type figure struct {
	name  string
	value telemetry.Value
}

func figures(s *query.Statistic) [6]figure {
	return [6]figure{{"min", s.Min}, {"max", s.Max}, {"sum", s.Sum}, {"avg", average(s)}, {"first", s.First},
		{"last", s.Last}}
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

// nonFinites returns the numbers of NaN and of both infinities.
func nonFinites(s *query.Statistic) [3]struct {
	name  string
	count int
} {
	return [3]struct {
		name  string
		count int
	}{{"nan", s.NaN}, {"pos_inf", s.PosInf}, {"neg_inf", s.NegInf}}
}

func appendAggregate(b []byte, s *query.Statistic) []byte {
	b = jsontext.AppendString(append(b, `{"device":`...), s.Device)
	b = strconv.AppendInt(append(b, `,"start":`...), s.Start, 10)
	if len(s.Labels) > 0 {
		b = jsontext.AppendLabels(append(b, `,"labels":`...), s.Labels)
	}
	b = jsontext.AppendString(append(b, `,"metric":`...), s.Metric)
	b = jsontext.AppendString(append(b, `,"type":`...), s.Kind.String())
	b = strconv.AppendInt(append(b, `,"count":`...), int64(s.Count), 10)
	for _, f := range figures(s) {
		if f.value.Kind() != 0 {
			b = appendJSON(append(append(append(b, `,"`...), f.name...), `":`...), f.value)
		}
	}
	for _, o := range nonFinites(s) {
		if o.count > 0 {
			b = strconv.AppendInt(append(append(append(b, `,"`...), o.name...), `":`...), int64(o.count), 10)
		}
	}
	return append(b, '}')
}

func appendAggregateCells(b []byte, s *query.Statistic) []byte {
	b = appendTime(b, s.Start)
	b = appendSeriesCells(b, curveName{s.Device, s.Labels, s.Metric})
	b = append(append(b, ','), s.Kind.String()...)
	b = strconv.AppendInt(append(b, ','), int64(s.Count), 10)
	for _, f := range figures(s) {
		if b = append(b, ','); f.value.Kind() != 0 {
			b = appendValueCell(b, f.value)
		}
	}
	for _, o := range nonFinites(s) {
		b = strconv.AppendInt(append(b, ','), int64(o.count), 10)
	}
	return b
}

// appendAggregate appends a row of aggregatesColumns.
func (f *parquetFile) appendAggregate(s *query.Statistic) error {
	labels, kind := labelsText(s.Labels), s.Kind.String()
	f.time(0, s.Start)
	f.text(1, s.Device, true)
	f.text(2, labels, labels != "")
	f.text(3, s.Metric, true)
	f.text(4, kind, true)
	f.integer(5, int64(s.Count), true)
	column := 6
	for _, of := range figures(s) {
		v, ok := nearest(of.value)
		f.number(column, v, ok)
		column++
	}
	for _, o := range nonFinites(s) {
		f.integer(column, int64(o.count), true)
		column++
	}
	return f.endRow()
}

// curveName is what names a series of a tenant.
type curveName struct {
	device string
	labels telemetry.Labels
	metric string
}

// appendSeriesCells appends device, labels and metric as cells behind another one.
func appendSeriesCells(b []byte, of curveName) []byte {
	b = append(appendCell(append(b, ','), of.device), ',')
	if text := labelsText(of.labels); text != "" {
		b = appendCell(b, text)
	}
	return appendCell(append(b, ','), of.metric)
}
