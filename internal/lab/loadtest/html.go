package loadtest

import (
	"bytes"
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"binnacle/internal/charges/ru"
	"binnacle/query/console"
)

//go:embed page/report.html
var pageMarkup string

//go:embed page/report.css
var pageStyle string

//go:embed page/report.js
var pageScript string

// page is what the template of the page shows.
type page struct {
	Heading, Command, Text string
	Style                  template.CSS
	Script                 template.JS
	Outcomes               []pageOutcome
	Evenings               bool // the balancer decides as the days pass
}

// pageOutcome is one scenario on the page.
type pageOutcome struct {
	Name    Scenario   `json:"name"`
	About   string     `json:"-"`
	Lead    string     `json:"-"`
	Verdict []string   `json:"-"`
	Panels  []panel    `json:"panels"`
	Costs   []costLine `json:"costs"`
	Offered float64    `json:"offered"`
	Days    bool       `json:"-"` // it lasts several
}

// panel is a layout on the page: Binnacle's has a part before and one after the balancer's epochs.
type panel struct {
	Name  string `json:"name"`
	Parts []part `json:"parts"`
}

type part struct {
	Name string `json:"name"`
	// Epoch describes the balancer's changes before this part.
	Epoch   string  `json:"epoch,omitempty"`
	Budget  float64 `json:"budget"` // RU/s of a physical partition
	Hottest float64 `json:"hottest"`
	Trace   *Trace  `json:"trace"`
	// Days holds the hottest partition's load over the mean, for each day.
	Days []float64 `json:"days,omitempty"`
}

// costLine is what a layout costs, in dollars a month.
type costLine struct {
	Name string `json:"name"`
	// Bought is the cost of the run's throughput.
	Bought float64  `json:"bought"`
	Enough *float64 `json:"enough"` // to accept all of the run's readings; none: nothing that is sold does
}

// HTML writes a report of traced scenarios as one page that needs nothing else. The same report gives the same page.
func HTML(w io.Writer, r Report) error {
	var text bytes.Buffer
	if err := Print(&text, r); err != nil {
		return err
	}
	p := page{Heading: heading(r), Command: r.Command, Text: text.String()}
	for _, o := range r.Outcomes {
		p.Outcomes = append(p.Outcomes, newPageOutcome(o))
		p.Evenings = p.Evenings || o.Scenario == Explodes
	}
	var err error
	if p.Style, p.Script, err = pageAssets(p.Outcomes); err != nil {
		return err
	}
	t, err := template.New("report").Parse(pageMarkup)
	if err != nil {
		return fmt.Errorf("page of the report: %w", err)
	}
	return t.Execute(w, p)
}

// pageAssets returns the style and the script of the page: the console's modules, without their exports, and uPlot.
func pageAssets(data []pageOutcome) (template.CSS, template.JS, error) {
	var css, js strings.Builder
	plots, err := console.File("vendor/uplot/uPlot.min.css")
	if err != nil {
		return "", "", err
	}
	css.Write(plots)
	css.WriteString(pageStyle)
	figures, err := json.Marshal(data)
	if err != nil {
		return "", "", fmt.Errorf("figures of the page: %w", err)
	}
	for _, name := range []string{
		"vendor/uplot/LICENSE", "vendor/uplot/uPlot.iife.min.js", "js/heatscale.js", "js/palette.js",
	} {
		b, err := console.File(name)
		if err != nil {
			return "", "", err
		}
		if strings.HasSuffix(name, "LICENSE") {
			b = slices.Concat([]byte("/*!\n"), b, []byte("*/"))
		}
		js.WriteString(strings.ReplaceAll(string(b), "\nexport function", "\nfunction"))
		js.WriteByte('\n')
	}
	fmt.Fprintf(&js, "const outcomes = %s;\n%s", figures, pageScript)
	if strings.Contains(js.String(), "</script") {
		return "", "", fmt.Errorf("the script of the page ends early")
	}
	return template.CSS(css.String()), template.JS(js.String()), nil
}

func newPageOutcome(o Outcome) pageOutcome {
	out := pageOutcome{Name: o.Scenario, About: o.Scenario.about(), Lead: lead(o), Verdict: conclusions(o)}
	for _, x := range o.Results {
		out.Offered = max(out.Offered, x.Offered)
		y := part{Name: x.Layout.about(), Budget: x.Bought / float64(len(x.Spread)), Hottest: x.Hottest,
			Trace: x.Trace}
		for _, d := range x.Days {
			y.Days, out.Days = append(y.Days, d.Hottest), true
		}
		if x.Layout == Balanced && len(x.Trace.Epochs) == 0 {
			y.Epoch = x.balanced()
			last := &out.Panels[len(out.Panels)-1]
			last.Parts = append(last.Parts, y)
			continue
		}
		name := "A document per " + x.Layout.about()
		if x.Layout == Binnacle {
			name = "Binnacle: a chunk per device and hold"
		}
		if x.Layout == Balanced {
			name = "Binnacle, placed anew each evening"
		}
		out.Panels = append(out.Panels, panel{name, []part{y}})
	}
	for _, x := range o.Results {
		line := costLine{Name: x.Layout.about(), Bought: x.Dollars, Enough: x.priceOf(x.Offered)}
		if x.Enough != nil {
			line.Enough = &x.Enough.Dollars
		}
		out.Costs = append(out.Costs, line)
	}
	return out
}

// priceOf returns the monthly price of the throughput that accepts rate readings a second, or nil where a
// physical partition would have to serve more than any does.
func (x Result) priceOf(rate float64) *float64 {
	rus := x.enough(rate)
	if rus/float64(len(x.Spread)) > ru.PartitionRUs {
		return nil
	}
	dollars := round(ru.Price(ru.Priced{RUs: rus}).Most)
	return &dollars
}

// lead returns a scenario's outcome in a few sentences.
func lead(o Outcome) string {
	var refusing []Result
	others := 0
	var binnacle string
	for _, x := range o.Results {
		switch {
		case x.Layout == Balanced:
			binnacle += fmt.Sprintf(" With the balancer its hottest physical partition has %.2f times the mean.", x.Hottest)
		case x.Layout == Binnacle:
			binnacle = fmt.Sprintf("With Binnacle %s, for %s RU per million values instead of %s.", x.accepted(),
				number(x.PerMillion), number(o.Results[0].PerMillion)) + binnacle
		default:
			if others++; x.lost() >= hardlyAny && x.Throttled > 0 {
				refusing = append(refusing, x)
			}
		}
	}
	of := func(figure func(Result) float64) string {
		least, most := math.Inf(1), 0.0
		for _, x := range refusing {
			least, most = min(least, figure(x)), max(most, figure(x))
		}
		if percent(least) == percent(most) {
			return percent(most)
		}
		return percent(least) + " to " + percent(most)
	}
	if len(refusing) == 0 {
		return binnacle
	}
	hottest := func(x Result) float64 { return slices.Max(x.Spread) }
	return fmt.Sprintf("%d of %d other layouts do not accept all readings: %s are refused, because one physical "+
		"partition is asked for %s of the load and has %s of the throughput. %s", len(refusing), others, of(Result.lost),
		of(hottest), percent(1/float64(len(refusing[0].Spread))), binnacle)
}
