package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"binnacle/internal/text/duration"
	"binnacle/internal/wire/jsontext"
	"binnacle/query"
)

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
	err := a.admit(r.Context(), tenant, func(ctx context.Context) (err error) {
		if found, res, err = a.cfg.Querier.Attendance(ctx, q); err == nil {
			refusals = a.cfg.Rejected.Steps(tenant, q.Range, step)
		}
		return err
	})
	if err != nil {
		return err
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
