package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"binnacle/internal/cosmos"
)

// Dashboards query while readings come in: every dashboardEvery they ask for the panel of the next tenant, over
// the last dashboardRange.
const (
	dashboardEvery = 3 * time.Second
	dashboardRange = 5 * time.Minute
)

// Panels is what dashboards have asked while readings came. Request units are modelled.
type Panels struct {
	Asked   int     `json:"asked"`
	Refused int     `json:"refused"` // with a 429
	RUs     float64 `json:"ru_per_panel"`
	// Milliseconds is the modelled mean duration of answered panels.
	Milliseconds float64 `json:"milliseconds"`
	// Share is the panels' share of all RU that the container is charged.
	Share float64 `json:"share_of_ru"`
}

// dashboards asks panels in a pass. A nil one asks nothing.
type dashboards struct {
	pass pass
	a    *account
	// b is nil for a layout that stores its own documents.
	b   *ingester
	sum ReadCost
	got Panels
}

// dashboards returns the dashboards of the scenario, if it has some.
func (p pass) dashboards(a *account, b *ingester) *dashboards {
	if p.scenario != Analysts {
		return nil
	}
	return &dashboards{pass: p, a: a, b: b}
}

// at asks the panels that are due in a second. It does not repeat a refused panel: a user sees an error.
func (d *dashboards) at(ctx context.Context, now time.Time) (err error) {
	if d == nil || now.Unix()%int64(dashboardEvery.Seconds()) != 0 {
		return nil
	}
	n := now.Unix() / int64(dashboardEvery.Seconds())
	q := question{tenant: fmt.Sprintf("tenant-%d", n%tenants), from: now.Add(-dashboardRange), to: now}
	var cost ReadCost
	var rounds int
	if d.b != nil {
		rounds, err = d.b.answer(ctx, q, &cost)
	} else {
		rounds, err = d.pass.answer(ctx, d.a, q, &cost)
	}
	d.got.Asked++
	d.sum.RUs += cost.RUs
	if answer, ok := errors.AsType[*cosmos.Error](err); ok && answer.Status == http.StatusTooManyRequests {
		d.got.Refused++
		return nil
	}
	d.sum.Milliseconds += 1e3 * float64(rounds) * roundTrip.Seconds()
	return err
}

// panels returns the panels asked and their share of all charged RU.
func (d *dashboards) panels(charged float64) *Panels {
	if d == nil {
		return nil
	}
	d.got.RUs = round(d.sum.RUs / float64(max(1, d.got.Asked)))
	d.got.Milliseconds = round(d.sum.Milliseconds / float64(max(1, d.got.Asked-d.got.Refused)))
	d.got.Share = round(d.sum.RUs / max(charged, 1e-9))
	return &d.got
}

func (x *Panels) about() string {
	text := fmt.Sprintf(" A panel takes %s RU (modelled), and panels %s of all RU", number(x.RUs), percent(x.Share))
	if x.Refused > 0 {
		return text + fmt.Sprintf("; %s of them are refused.", percent(float64(x.Refused)/float64(x.Asked)))
	}
	return text + "; all of them are answered."
}
