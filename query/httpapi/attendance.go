package httpapi

import (
	"net/http"
	"time"

	"binnacle/internal/duration"
	"binnacle/internal/telemetry"
	"binnacle/query"
)

var attendanceParameters = []string{"prefix", "limit", "from", "to", "step"}

const (
	defaultAttendees = 10_000
	maxSteps         = 24 * 31
)

// attendee is query.Attendee on the wire.
type attendee struct {
	Device  string `json:"device"`
	Present string `json:"present"` // a character a step
}

// What stands for a step.
const (
	there    = '1'
	notThere = '0'
	refused  = 'r' // not there, but refused
	unknown  = '-' // before the device was seen for the first time, or not over yet
)

// attendance answers in which hours each device has readings.
func (a *api) attendance(w *response, r *http.Request, tenant string) error {
	p := parse(r, attendanceParameters)
	now := a.cfg.Now()
	q := query.AttendanceRequest{Tenant: tenant, Prefix: p.values.Get("prefix"), Limit: p.count("limit", defaultAttendees),
		Step: p.duration("step", time.Hour, duration.Day)}
	step := q.Step.Milliseconds()
	q.Range.To = p.instant("to", now, clamp(now))
	q.Range.From = p.instant("from", now, max(0, q.Range.To-telemetry.DayMillis))
	if step == 0 {
		p.fail("step", "is less than 1ms")
		return p.err
	}
	q.Range.From -= q.Range.From % step
	q.Range.To = (q.Range.To + step - 1) / step * step
	if q.Range.From > q.Range.To {
		p.fail("from", "%s is after to, %s", shown(p, "from", q.Range.From), shown(p, "to", q.Range.To))
	}
	if (q.Range.To-q.Range.From)/step > maxSteps {
		p.fail("step", "there are more than %d steps between from and to", maxSteps)
	}
	if p.err != nil {
		return p.err
	}
	w.begin("application/json")
	if r.Method == http.MethodHead {
		return nil
	}
	found, res, err := a.cfg.Querier.Attendance(r.Context(), q)
	if err != nil {
		return err
	}
	refusals := a.cfg.Rejected.Steps(tenant, q.Range, step)
	out := struct {
		From       int64      `json:"from"`
		Step       int64      `json:"step_ms"`
		Devices    []attendee `json:"devices"`
		Truncated  bool       `json:"truncated"`
		Complete   bool       `json:"complete"`
		Incomplete []string   `json:"incomplete,omitempty"`
		Stats      struct {
			RequestUnits float64 `json:"request_units"`
			Documents    int     `json:"documents"`
		} `json:"stats"`
	}{From: q.Range.From, Step: step, Devices: make([]attendee, len(found)), Truncated: res.Truncated,
		Complete: res.Complete, Incomplete: res.Incomplete}
	for i, d := range found {
		line := make([]byte, len(d.Present))
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
		out.Devices[i] = attendee{d.Device, string(line)}
	}
	out.Stats.RequestUnits, out.Stats.Documents = res.Stats.RequestUnits, res.Stats.Documents
	return encode(w, out)
}
