package planner

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"

	"binnacle/internal/charges/ru"
	"binnacle/internal/text/report"
)

//go:embed requirements.md.tmpl
var requirements string

//go:embed model.md.tmpl
var dataModel string

var functions = template.FuncMap{
	"n": figure,
	"fig": func(p *Plan, name string) string {
		for _, f := range p.Figures {
			if f.Name == name {
				return f.String()
			}
		}
		panic("planner: no figure is named " + name)
	},
	"reads": func(p *Plan, pattern string) string {
		sum, of := 0.0, 0.0
		for _, q := range p.Workload.Queries {
			if sum += q.Rate.mid(); string(q.Pattern) == pattern {
				of += q.Rate.mid()
			}
		}
		return figure(100*of/max(1e-12, sum)) + " %"
	},
	"cut": func(text string) string {
		if len(text) <= 700 {
			return text
		}
		return fmt.Sprintf("%s … (%d bytes)", text[:700], len(text))
	},
	"chart": chart,
}

// String returns the median, and the band where there is one.
func (f Figure) String() string {
	if figure(f.P5) == figure(f.P95) {
		return figure(f.P50)
	}
	return fmt.Sprintf("%s (%s to %s)", figure(f.P50), figure(f.P5), figure(f.P95))
}

// chart draws each month's bill: the median as a bar, with the band behind it.
func chart(months []Figure) string {
	most := 0.0
	for _, m := range months {
		most = max(most, m.P95)
	}
	var b strings.Builder
	for _, m := range months {
		bar := strings.Repeat("█", int(50*m.P50/most)) + strings.Repeat("░", int(50*m.P95/most)-int(50*m.P50/most))
		fmt.Fprintf(&b, "%-9s %s %s\n", m.Name, bar, m)
	}
	return b.String()
}

// Requirements returns cosmosdb_requirements.md.
func (p *Plan) Requirements() (string, error) { return fill(requirements, p) }

// Model returns cosmosdb_data_model.md.
func (p *Plan) Model() (string, error) {
	chunk := int(p.device.bytes / p.device.chunks)
	write := func(scalars int) float64 { return ru.Stepped.Write(chunk, ru.Stepped.Levels(scalars*ru.Scalar, 2)) }
	span, name := "month", "YYYY-MM"
	if p.option.months > 1 {
		span, name = "year", "YYYY"
	}
	return fill(dataModel, struct {
		*Plan
		HasRollups, Shared      bool
		Span, Name              string
		DocumentBytes, DeviceGB float64
		IndexRUs                [3]float64
	}{p, p.option.rollups, p.option.shared, span, name, float64(chunk),
		p.device.bytes * indexShare * 30.4 * float64(p.option.months) / 1e9,
		[3]float64{write(5), ru.Stepped.Write(chunk, ru.NoIndex), write(13)}})
}

func fill(text string, data any) (string, error) {
	t, err := template.New("").Funcs(functions).Parse(text)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = t.Execute(&out, data)
	return out.String(), err
}

// Print writes a summary.
func (p *Plan) Print(w io.Writer) error {
	rows := [][]string{{"FIRST MONTH", "5 %", "50 %", "95 %", "BASIS"}}
	add := func(all []Figure) {
		for _, f := range all {
			name := strings.TrimSuffix(f.Name+", "+f.Unit, ", ")
			rows = append(rows, []string{name, figure(f.P5), figure(f.P50), figure(f.P95), string(f.Basis)})
		}
	}
	add(p.Figures)
	if err := report.List(w, rows); err != nil {
		return err
	}
	rows = [][]string{{fmt.Sprintf("BILL OF MONTH %d", p.Workload.Months), "5 %", "50 %", "95 %", "BASIS"}}
	add(p.Bill)
	add(p.Others)
	fmt.Fprintln(w)
	if err := report.List(w, rows); err != nil {
		return err
	}
	if p.TooSmall != "" {
		fmt.Fprintf(w, "\n%s\n", p.TooSmall)
	}
	fmt.Fprintf(w, "\nChosen: %s.\n%s\n\nBy month, in dollars (5 to 95 %%):\n%s\nNot chosen:\n", p.Chosen, p.Rollups,
		chart(p.Months))
	for _, r := range p.Rejected {
		fmt.Fprintf(w, "- %s: %s.\n", r.Option, r.Why)
	}
	_, err := fmt.Fprintln(w, "\nRequest units are modelled, prices are list prices. --out DIR writes the whole plan.")
	return err
}
