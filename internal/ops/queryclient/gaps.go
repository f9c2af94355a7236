package queryclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"binnacle/internal/settings"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
	"binnacle/internal/text/report"
)

// Gaps requests the gaps of readings with their verdicts. docs/operate/diagnose.md is the manual; what a verdict is
// and how it is found is package query/diagnose/gaps's. Its tags are package settings's.
type Gaps struct {
	Device string        `arg:"" optional:"" help:"Device to examine. Default: all devices, with the hours in which each has readings."`
	From   string        `help:"Start: a time such as 2026-11-20T10:00:00Z, or relative to now such as -2h." default:"-1d"`
	To     string        `help:"End, exclusive." default:"now"`
	Expect time.Duration `help:"Interval at which the device reports. Default: estimated from its readings."`
	Number string        `name:"sequence" help:"Metric with the sequence number of the device's messages, which shows what was lost before Kafka. Default: --sequence of the querier." placeholder:"METRIC"`
	JSON   bool          `name:"json" help:"Print the JSON of the API."`

	Querier
}

// Validate reports every fault that can be seen without asking.
func (g Gaps) Validate() error {
	faults := settings.Faults{g.Querier.Validate()}
	if g.Device != "" {
		faults.Add(telemetry.CheckDevice(g.Device))
	}
	faults.Check(g.Expect == 0 || g.Device != "", "--expect is about one device")
	faults.Check(g.Number == "" || g.Device != "", "--sequence is about one device")
	faults.Check(g.Expect >= 0, "--expect %s is negative", g.Expect)
	return faults.Err()
}

// answer is the querier's: docs/reference/api.md.
type answer struct {
	Expect     int64 `json:"expect_ms"`
	Learnt     bool
	Readings   int
	From, To   int64
	Complete   bool
	Incomplete []string
	Gaps       []struct {
		From, To        int64
		Began           int64 // start of one that began before the range; else 0
		Missing         int
		Verdict, Reason string
		Topic           string
		Partition       int32
		Offset          int64
		Detail, Fix     string
	}

	Devices   []struct{ Device, Present string } // the fleet form has them
	Truncated bool
}

// ErrDamaged says that the store lacks what it must have.
var ErrDamaged = errors.New("the store lacks chunks: run binnacle audit")

// Run asks and prints. Its error is ErrDamaged when a verdict is that.
func (g Gaps) Run(ctx context.Context, w io.Writer) error {
	if err := g.Validate(); err != nil {
		return err
	}
	path, q := "/api/v1/attendance", url.Values{"from": {g.From}, "to": {g.To}}
	if g.Device != "" {
		path = "/api/v1/gaps"
		q.Set("device", g.Device)
	}
	if g.Expect > 0 {
		q.Set("expect", duration.String(g.Expect))
	}
	if g.Number != "" {
		q.Set("sequence", g.Number)
	}
	var a answer
	body, err := g.Get(ctx, path, q, &a)
	if err != nil {
		return err
	}
	switch {
	case g.JSON:
		_, err = w.Write(body)
	case g.Device == "":
		err = a.printFleet(w)
	default:
		err = a.print(w)
	}
	if err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	for _, g := range a.Gaps {
		if g.Verdict == "damaged" {
			return ErrDamaged
		}
	}
	return nil
}

func (a *answer) print(w io.Writer) error {
	every := "not known"
	if a.Expect > 0 {
		every = duration.String(time.Duration(a.Expect) * time.Millisecond)
		if a.Learnt {
			every += ", learnt"
		}
	}
	rows := [][]string{{"readings", report.Thousands(a.Readings)}, {"interval", every}, {"gaps", fmt.Sprint(len(a.Gaps))}}
	if err := report.List(w, rows); err != nil {
		return err
	}
	if len(a.Gaps) > 0 {
		rows = [][]string{{"from", "to", "missing", "verdict", ""}}
	} else {
		rows = nil
	}
	for _, g := range a.Gaps {
		verdict, detail := g.Verdict, g.Detail
		if g.Verdict == "refused" {
			verdict += ": " + g.Reason
			detail = fmt.Sprintf("%s/%d from offset %d: %s", g.Topic, g.Partition, g.Offset, g.Fix)
		}
		if g.Began > 0 {
			detail = fmt.Sprintf("since %s: %s", instant(g.Began), detail)
		}
		rows = append(rows, []string{instant(g.From), instant(g.To), report.Thousands(g.Missing), verdict, detail})
	}
	return a.printTable(w, rows)
}

func (a *answer) printFleet(w io.Writer) error {
	rows := [][]string{{"device", "hours from " + instant(a.From) + ": 1 readings, 0 none, r refused, - not known"}}
	for _, d := range a.Devices {
		rows = append(rows, []string{d.Device, d.Present})
	}
	if a.Truncated {
		rows = append(rows, []string{"…", "there are more"})
	}
	return a.printTable(w, rows)
}

// printTable prints a table, and why the answer is not complete.
func (a *answer) printTable(w io.Writer, rows [][]string) error {
	if err := report.List(w, rows); err != nil {
		return err
	}
	for _, why := range a.Incomplete {
		if _, err := fmt.Fprintf(w, "incomplete: %s\n", why); err != nil {
			return err
		}
	}
	return nil
}

func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z") }
