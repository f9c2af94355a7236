package httpapi

import (
	"encoding/base64"
	"encoding/json"

	"binnacle/internal/telemetry"
	"binnacle/query"
)

// cursor is where the next page of readings begins, and of what they are pages: times that were given as before now
// would otherwise move on from page to page.
type cursor struct {
	From   int64             `json:"f"`
	To     int64             `json:"t"`
	Desc   bool              `json:"o,omitempty"`
	Time   int64             `json:"r"`
	Device string            `json:"d"`
	Labels map[string]string `json:"l,omitempty"`
	AsOf   int64             `json:"a,omitempty"`
}

// cursorAfter returns the cursor behind the last row of a page.
func cursorAfter(q readingsQuery, last query.Row) string {
	c := cursor{q.whole.From, q.whole.To, q.Descending, last.Time, last.Device, last.Labels.Map(), q.AsOf}
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // integers and strings
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// resumeAt makes a request begin where its cursor says.
func (p *params) resumeAt(q *readingsQuery) {
	if !p.values.Has("cursor") {
		return
	}
	for _, name := range []string{"from", "to", "order", "as_of"} {
		if p.values.Has(name) {
			p.fail(name, "may not stand beside cursor, which has it")
		}
	}
	var c cursor
	b, err := base64.RawURLEncoding.DecodeString(p.values.Get("cursor"))
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil || c.From > c.To || c.Time < c.From || c.Time >= c.To || c.AsOf < 0 {
		p.fail("cursor", "is not one that an answer has returned")
		return
	}
	if c.AsOf > 0 && (q.Strict || p.after) {
		p.fail("cursor", "is of what was stored by an earlier time (as_of): it may not be combined with strict=true or %s, "+
			"which are about now", AfterHeader)
		return
	}
	labels := make([]telemetry.Label, 0, len(c.Labels))
	for name, value := range c.Labels {
		labels = append(labels, telemetry.Label{Name: name, Value: value})
	}
	q.whole = telemetry.Range{From: c.From, To: c.To}
	q.Range, q.Descending, q.AsOf = q.whole, c.Desc, c.AsOf
	q.After = &query.Row{Device: c.Device, Time: c.Time, Labels: telemetry.NewLabels(labels)}
	// What lies before the row's instant has been answered.
	if c.Desc {
		q.Range.To = c.Time + 1
	} else {
		q.Range.From = c.Time
	}
}
