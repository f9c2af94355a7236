package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"

	"binnacle/internal/lab/emulator/recording"
	"binnacle/internal/ops"
)

// EmulatorDiffConfig sets `binnacle emulator diff`.
type EmulatorDiffConfig struct {
	Before    string  `arg:"" type:"path" help:"Recording from before the change: a file of --record."`
	After     string  `arg:"" type:"path" help:"Recording from after it."`
	Tolerance float64 `help:"Per cent by which all requests together, and a request on average, may cost more." default:"5"`
	JSON      bool    `name:"json" help:"Print JSON."`
}

// Run compares two recordings of the embedded Cosmos DB. It fails when something costs more than the tolerance
// allows.
func (cfg EmulatorDiffConfig) Run(_ context.Context, env ops.Env) error {
	if cfg.Tolerance < 0 {
		return fmt.Errorf("--tolerance %v is negative", cfg.Tolerance)
	}
	var lists [2][]recording.Exchange
	for i, name := range []string{cfg.Before, cfg.After} {
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("read a recording: %w", err)
		}
		lists[i], err = recording.Read(file)
		_ = file.Close() // it was only read
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(lists[i]) == 0 {
			return fmt.Errorf("%s has no exchange", name)
		}
	}
	d := recording.Diff(lists[0], lists[1], cfg.Tolerance)
	if err := printDiff(cfg, d, env); err != nil {
		return err
	}
	if n := len(d.Regressions); n > 0 {
		return fmt.Errorf("%d regressions: more than %v %% more request units", n, cfg.Tolerance)
	}
	return nil
}

func printDiff(cfg EmulatorDiffConfig, d recording.Difference, env ops.Env) error {
	if cfg.JSON {
		out := json.NewEncoder(env.Stdout)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		return out.Encode(d)
	}
	out := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(c recording.Cost) {
		fmt.Fprintf(out, "%d\t%d\t%.2f\t%.2f\t%+.1f %%\t  %s\n",
			c.Before.Requests, c.After.Requests, c.Before.RU, c.After.RU, c.Change, c.Name)
	}
	fmt.Fprint(out, "requests\tnow\tRU\tnow\tchange\t  by kind (modelled)\n")
	for _, c := range append(d.Kinds, d.All) {
		row(c)
	}
	if len(d.Requests) > 0 {
		fmt.Fprint(out, "\nrequests\tnow\tRU\tnow\teach\t  by request, where it differs\n")
	}
	for _, c := range d.Requests {
		row(c)
	}
	if len(d.Regressions) > 0 {
		fmt.Fprint(out, "\nrequests\tnow\tRU\tnow\tchange\t  regressions\n")
	}
	for _, c := range d.Regressions {
		row(c)
	}
	return out.Flush()
}
