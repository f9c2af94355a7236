package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
	"binnacle/internal/wire/jsontext"
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
	var deadLetters string
	var diagnosis gaps.Diagnosis
	q.Diagnose = func(c gaps.Evidence) {
		c.Refusals, c.Nameless, c.DeadLetters = a.cfg.Rejected.Of(tenant, q.Device, c.Judged())
		deadLetters, diagnosis = c.DeadLetters, gaps.Diagnose(c)
	}
	c, res, err := a.cfg.Querier.Evidence(r.Context(), q)
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
	if deadLetters != "" {
		out.Incomplete = append(out.Incomplete, deadLetters)
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

var attendanceParameters = []string{"prefix", "limit", "from", "to", "step", "timeout"}

const (
	defaultAttendees = 10_000
	maxSteps         = 24 * 31
)

// The letters of steps.
const (
	there    = '1'
	notThere = '0'
	refused  = 'r' // not there, but refused
	unknown  = '-' // before the device was seen for the first time, or not over yet
)

// readCost is what the documents of an answer have cost.
type readCost struct {
	RequestUnits float64 `json:"request_units"`
	Documents    int     `json:"documents"`
}

// attendance answers in which hours each device has readings.
func (a *api) attendance(w *response, r *http.Request, tenant string) error {
	p := parse(r, attendanceParameters)
	now := a.cfg.Now()
	q := query.AttendanceRequest{Tenant: tenant, Prefix: p.values.Get("prefix"), Limit: p.count("limit", defaultAttendees),
		Step: p.duration("step", time.Hour, duration.Day)}
	step := q.Step.Milliseconds()
	q.Range = p.lastDay(now, clamp(now))
	if step == 0 {
		p.fail("step", "is less than 1ms")
		return p.err
	}
	q.Range.From -= q.Range.From % step
	q.Range.To = (q.Range.To + step - 1) / step * step
	if (q.Range.To-q.Range.From)/step > maxSteps {
		p.fail("step", "there are more than %d steps between from and to", maxSteps)
	}
	if done, err := w.beginJSON(p); done {
		return err
	}
	var found []query.Attendee
	var res query.Result
	var refusals map[string]map[int]bool
	var deadLetters string
	err := a.admit(r.Context(), tenant, func(ctx context.Context) (err error) {
		if found, res, err = a.cfg.Querier.Attendance(ctx, q); err == nil {
			refusals, deadLetters = a.cfg.Rejected.Steps(tenant, q.Range, step)
		}
		return err
	})
	if err != nil {
		return err
	}
	if deadLetters != "" {
		res.Complete, res.Incomplete = false, append(res.Incomplete, deadLetters)
	}
	// A large fleet is written device by device: its whole text would exceed the counted memory several times.
	b := fmt.Appendf(nil, `{"from":%d,"step_ms":%d,"devices":[`, q.Range.From, step)
	var line []byte
	for i, d := range found {
		line = append(line[:0], make([]byte, len(d.Present))...)
		for k, present := range d.Present {
			begin := q.Range.From + int64(k)*step
			switch {
			case present:
				line[k] = there
			case refusals[d.Device][k]:
				line[k] = refused
			case begin+step > now.UnixMilli() || d.Known < 0 || begin < d.Known:
				line[k] = unknown
			default:
				line[k] = notThere
			}
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsontext.AppendString(append(b, `{"device":`...), d.Device), `,"present":"`...)
		b = append(append(b, line...), '"', '}')
		if _, err := w.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	if _, err := w.Write(append(b, ']', ',')); err != nil {
		return err
	}
	tail := struct {
		Truncated  bool     `json:"truncated"`
		Complete   bool     `json:"complete"`
		Incomplete []string `json:"incomplete,omitempty"`
		Stats      readCost `json:"stats"`
	}{res.Truncated, res.Complete, res.Incomplete, readCost{res.Stats.RequestUnits, res.Stats.Documents}}
	text, err := json.Marshal(tail)
	if err != nil {
		return fmt.Errorf("encode the members behind the devices: %w", err)
	}
	_, err = w.Write(append(text[1:], '\n'))
	return err
}

func clamp(t time.Time) int64 { return duration.CeilMillis(t) }
