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
	"d": cents,
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
		if most < fraction {
			return "nothing\n"
		}
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
	write := func(scalars int) float64 { return ru.Stepped.Write(chunk, scalars*ru.Scalar) }
	span, name := "month", "YYYY-MM"
	if p.option.months > 1 {
		span, name = "year", "YYYY"
	}
	return fill(dataModel, struct {
		*Plan
		HasRollups, Shared      bool
		Serverless, Autoscale   bool
		Span, Name              string
		DocumentBytes, DeviceGB float64
		IndexRUs                [3]float64
	}{p, p.option.rollups, p.option.way.shared(), p.option.way == serverless, p.option.way == autoscale, span, name,
		float64(chunk), p.device.bytes * indexShare * 30.4 * float64(p.option.months) / 1e9,
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

// Print writes a summary: what a month costs by each way to buy, the cheapest first, and what it is made of.
func (p *Plan) Print(w io.Writer) error {
	fmt.Fprintf(w, "Cheapest: %s.\n", p.Chosen)
	for _, text := range p.TooMuch {
		fmt.Fprintln(w, text)
	}
	for _, x := range p.Others {
		fmt.Fprintf(w, "Without Binnacle, %s: $%s a month.\n", x.Name, cents(x.P50))
	}
	rows := [][]string{{"WAY TO BUY", "$ A MONTH", "MORE", "CHEAPEST FOR", "WITH"}}
	for _, x := range p.Ways {
		if x.Why != "" {
			rows = append(rows, []string{x.Way, "-", "-", x.Pays, "not to be had: " + x.Why})
			continue
		}
		rows = append(rows, []string{x.Way, cents(x.P50), "+" + cents(x.More), x.Pays, x.With})
	}
	spans := [][]string{{"CONTAINERS, " + strings.ToUpper(string(p.option.way)), "$ A MONTH"}}
	for _, x := range p.Spans {
		spans = append(spans, []string{x.Name, cents(x.P50)})
	}
	kept := [][]string{{"RETENTION, DAYS", "GB KEPT", "$ A MONTH", "STORAGE, $", "LEAST RU/S FOR IT", "CHEAPEST"}}
	for _, x := range p.Keeping {
		kept = append(kept, []string{figure(x.Days), figure(x.GB), cents(x.Dollars), cents(x.Storage), figure(x.Forced),
			x.Way + ", " + x.With})
	}
	for _, table := range [][][]string{rows, spans, kept, p.Storage.rows(), p.isolationRows(),
		p.figureRows("FIRST MONTH", p.Figures),
		p.figureRows(fmt.Sprintf("BILL OF MONTH %d", p.Workload.Months), p.Bill, p.Others)} {
		if len(table) == 1 {
			continue
		}
		fmt.Fprintln(w)
		if err := report.List(w, table); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n\nBy month, in dollars (5 to 95 %%):\n%s\nRequest units are modelled, prices are "+
		"list prices. --out DIR writes the whole plan.\n", p.Rollups, chart(p.Months))
	return err
}

func (p *Plan) figureRows(title string, lists ...[]Figure) [][]string {
	rows := [][]string{{title, "5 %", "50 %", "95 %", "BASIS"}}
	for _, list := range lists {
		for _, f := range list {
			name := strings.TrimSuffix(f.Name+", "+f.Unit, ", ")
			rows = append(rows, []string{name, figure(f.P5), figure(f.P50), figure(f.P95), string(f.Basis)})
		}
	}
	return rows
}

func cents(dollars float64) string { return report.Dollars(dollars) }

func (s Storage) rows() [][]string {
	rows := [][]string{{"STORED, ONCE READINGS EXPIRE", "GB", "$ A MONTH", "HALF THE RETENTION SAVES"}}
	add := func(name string, gb float64, saves string) {
		rows = append(rows, []string{name, figure(gb), cents(gb * ru.StoragePerGB), saves})
	}
	add("data", s.DataGB, "")
	add("index", s.IndexGB, "")
	add("of a month", s.MonthGB, "")
	add("of the largest tenant", s.LargestGB, "")
	for _, c := range s.Classes {
		add("devices "+c.Fleet, c.GB, "$"+cents(c.Saves))
		for _, m := range c.Metrics[:min(mostMetrics, len(c.Metrics))] {
			add("  metric "+m.Metric, m.GB, "")
		}
	}
	return rows
}

// mostMetrics is how many metrics of a class a summary lists.
const mostMetrics = 10
