package queryclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"binnacle/internal/catalog"
	"binnacle/internal/report"
	"binnacle/query"
)

// Cardinality requests the largest metrics, tags, labels and devices of a tenant. Its tags are
// package settings's.
type Cardinality struct {
	Prefix string   `help:"Count only devices with this prefix."`
	Match  []string `help:"Count only devices that match, such as site=nord, model!=x1, device=~truck-.* or metric=fuel. It can be repeated." sep:"none" placeholder:"CONDITION"`
	Top    int      `help:"Number of metrics, tags, labels and devices to list of each." default:"10"`
	JSON   bool     `name:"json" help:"Print the JSON of the API."`

	Querier
}

// Validate reports every fault that can be seen without asking.
func (c Cardinality) Validate() error {
	faults := []error{c.Querier.Validate()}
	if c.Top < 1 {
		faults = append(faults, fmt.Errorf("--top %d is not above 0", c.Top))
	}
	return errors.Join(faults...)
}

// Run asks and prints.
func (c Cardinality) Run(ctx context.Context, w io.Writer) error {
	if err := c.Validate(); err != nil {
		return err
	}
	q := url.Values{"limit": {strconv.Itoa(c.Top)}}
	if c.Prefix != "" {
		q.Set("prefix", c.Prefix)
	}
	if len(c.Match) > 0 {
		q["match"] = c.Match
	}
	var a query.Cardinality
	body, err := c.get(ctx, "/api/v1/cardinality", q, &a)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err = w.Write(body)
	} else {
		err = printCardinality(w, &a)
	}
	if err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

func printCardinality(w io.Writer, a *query.Cardinality) error {
	err := report.List(w, [][]string{
		{"tenant", a.Tenant},
		{"devices", report.Thousands(a.Devices)},
		{"series", report.Thousands(a.Series) + ", pairs of a device and a metric"},
	})
	metrics := [][]string{{"metric", "devices", "types", "units"}}
	for _, m := range a.Metrics {
		metrics = append(metrics, []string{
			m.Metric, report.Thousands(m.Devices), strings.Join(m.Types, " "), strings.Join(m.Units, " "),
		})
	}
	devices := [][]string{{"device", "metrics", "labels with values"}}
	for _, d := range a.Largest {
		devices = append(devices, []string{d.Device, report.Thousands(d.Metrics), report.Thousands(d.Labels)})
	}
	err = errors.Join(err, section(w, metrics, a.Names.Metrics),
		section(w, rows("tag", a.Tags), a.Names.Tags), section(w, rows("label", a.Labels), a.Names.Labels),
		section(w, devices, a.Devices))
	for _, why := range a.Incomplete {
		_, e := fmt.Fprintf(w, "incomplete: %s\n", why)
		err = errors.Join(err, e)
	}
	return err
}

func rows(what string, all []catalog.NameCount) [][]string {
	out := [][]string{{what, "values", "devices"}}
	for _, n := range all {
		out = append(out, []string{n.Name, report.Thousands(n.Values), report.Thousands(n.Devices)})
	}
	return out
}

// section prints rows with a head, if there are any, and how many of all there are they leave out.
func section(w io.Writer, rows [][]string, all int) error {
	listed := len(rows) - 1
	if listed == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w)
	err = errors.Join(err, report.List(w, rows))
	if all > listed {
		_, e := fmt.Fprintf(w, "and %s more\n", report.Thousands(all-listed))
		err = errors.Join(err, e)
	}
	return err
}
