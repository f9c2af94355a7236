package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/store"
	"binnacle/internal/text/report"
)

// DoctorConfig is what `binnacle doctor` runs with.
type DoctorConfig struct {
	Account AccountConfig `kong:"embed,group='Cosmos DB'"`

	Measure bool       `aliases:"target" help:"Create a container of 400 RU/s, measure some thirty operations in it, and drop it. An hour of the container costs about $0.03. On a terminal the command asks first."`
	Yes     bool       `help:"Measure without asking."`
	Model   ru.Model   `name:"ru-model" help:"Model that charges are compared with: step or slope, between the rows of the table of sizes." default:"step"`
	Factors ru.Factors `name:"ru-factors" help:"Output of an earlier --measure --json, which corrects the model before the comparison. Default: none." placeholder:"FILE"`
	JSON    bool       `name:"json" help:"Print the result as JSON."`
}

type doctorReport struct {
	At         time.Time         `json:"at"`
	Binnacle   string            `json:"binnacle"`
	Model      string            `json:"model"`
	Checks     []finding         `json:"checks"`
	Containers []containerFound  `json:"containers"`
	Skew       time.Duration     `json:"skew"`
	Measured   []measuredOutcome `json:"measured,omitempty"`
	Verdict    *cosmos.Verdict   `json:"verdict,omitempty"`
	Factors    *ru.Factors       `json:"factors,omitempty"` // for --ru-factors
}

// finding is what became of one check.
type finding struct {
	What  string        `json:"what"`
	Took  time.Duration `json:"took"`
	Wrong string        `json:"wrong,omitempty"`
}

type containerFound struct {
	Name       string `json:"name"`
	RUs        int    `json:"rus"`
	Autoscale  bool   `json:"autoscale"`
	Serverless bool   `json:"serverless,omitempty"` // RUs is what the container may use, and nothing is bought
	Partitions int    `json:"partitions"`
	Wrong      string `json:"wrong,omitempty"`
}

type measuredOutcome struct {
	cosmos.Measurement
	Factor float64 `json:"factor"`
}

// Run looks at an account as the roles see it, and, if it may, measures it.
func (cfg DoctorConfig) Run(ctx context.Context, env Env) error {
	client, err := cfg.Account.Connect(env.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	d := doctorReport{At: time.Now().UTC(), Binnacle: ThisVersion().Release, Model: cfg.Model.String()}
	if isReached := d.runChecks(ctx, client); cfg.Measure && isReached {
		if !cfg.JSON {
			fmt.Fprintf(env.Stdout, "A container of 400 RU/s is made, measured and dropped, which costs $%.3f (list price), "+
				"or its request units on a serverless account.\n\n", cosmos.ScratchDollars())
		}
		err = ActionsOf(client, "", env.Logger).Do(ctx, control.Action{Verb: "doctor measure"}, func(*control.Action) error {
			found, err := client.Examine(ctx, cfg.Model.Corrected(cfg.Factors), func(m cosmos.Measurement) {
				d.Measured = append(d.Measured, measuredOutcome{m, m.Factor()})
			})
			d.Skew = found.Skew
			if v, ok := cosmos.VerdictOf(found.Measured); ok {
				d.Verdict = &v
			}
			// Factors of the wrong model would correct steps by slopes.
			if factors := cosmos.FactorsOf(found.Measured); err == nil && cfg.Factors == (ru.Factors{}) && !d.otherModel() {
				d.Factors = &factors
			}
			return err
		})
		d.record("measure", d.At, err)
	}
	if err := d.print(cfg, env); err != nil {
		return err
	}
	return d.problems()
}

// runChecks reports whether the account answers. Of one that does not, and of containers that are missing, nothing else
// can be found out.
func (d *doctorReport) runChecks(ctx context.Context, client *cosmos.Client) (isReached bool) {
	began := time.Now()
	names, err := client.Containers().List(ctx)
	d.record("list containers", began, err)
	if err != nil {
		return false
	}
	slices.Sort(names)
	if slices.Contains(names, store.ControlContainer) {
		began = time.Now()
		v, err := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents()}).Refresh(ctx)
		d.record("read control documents", began, err)
		if err == nil {
			for _, damaged := range v.Damage() {
				d.record(fmt.Sprintf("understand the %s document %s", damaged.Kind, damaged.ID), began, damaged)
			}
		}
		began = time.Now()
		_, _, err = client.Feed().Changes(ctx, "", began.Add(-time.Minute))
		d.record("follow the change feed of control", began, err)
	}
	if slices.Contains(names, store.CatalogContainer) {
		began = time.Now()
		_, err = client.Catalog().Pages(ctx, "doctor", 0)
		d.record("query the catalog", began, err)
	}
	for _, name := range names {
		found := containerFound{Name: name}
		state, err := client.Containers().ReadThroughput(ctx, name)
		if err == nil {
			found.RUs, found.Autoscale = state.Throughput.RUs, state.Throughput.Autoscale
			found.Serverless = state.Throughput.Serverless
			found.Partitions, err = client.Ranges(ctx, name)
		}
		if found.Serverless {
			found.RUs = int(ru.ServerlessRUs(found.Partitions))
		}
		if err != nil {
			found.Wrong = err.Error()
		}
		d.Containers = append(d.Containers, found)
	}
	for _, base := range store.BaseContainers() {
		if !slices.Contains(names, base) {
			d.record("find "+base, time.Now(), fmt.Errorf("there is none: binnacle provision creates it"))
		}
	}
	return true
}

func (d *doctorReport) record(what string, began time.Time, err error) {
	f := finding{What: what, Took: time.Since(began)}
	if err != nil {
		f.Wrong = err.Error()
	}
	d.Checks = append(d.Checks, f)
}

// maxSkew is how far the service's clock may be from this one: epochs, tokens and signatures go by both.
const maxSkew = 5 * time.Second

func (d *doctorReport) problems() error {
	wrong := 0
	for _, f := range d.Checks {
		if f.Wrong != "" {
			wrong++
		}
	}
	for _, m := range d.Measured {
		if m.Problem != "" {
			wrong++
		}
	}
	if d.Skew.Abs() > maxSkew {
		wrong++
	}
	if wrong > 0 {
		return fmt.Errorf("%d checks failed", wrong)
	}
	return nil
}

// otherModel reports whether the account charges by the model that it was not compared with.
func (d *doctorReport) otherModel() bool {
	return d.Verdict != nil && d.Verdict.Sizes != cosmos.Neither && d.Verdict.Sizes != d.Model
}

func (d *doctorReport) print(cfg DoctorConfig, env Env) error {
	if cfg.JSON {
		return json.NewEncoder(env.Stdout).Encode(d)
	}
	rows := [][]string{{"check", "took", ""}}
	for _, f := range d.Checks {
		rows = append(rows, []string{f.What, milliseconds(f.Took), cmp.Or(f.Wrong, "ok")})
	}
	if cfg.Measure {
		state := ""
		if d.Skew.Abs() > maxSkew {
			state = "set the clock of this machine"
		}
		rows = append(rows, []string{"clock of the service", d.Skew.String(), cmp.Or(state, "ok")})
	}
	tables := [][][]string{rows}
	rows = [][]string{{"container", "RU/s", "physical partitions", "RU/s of each", ""}}
	for _, c := range d.Containers {
		mode, each := "", "-"
		switch {
		case c.Autoscale:
			mode = " auto"
		case c.Serverless:
			mode = " serverless"
		}
		if c.Partitions > 0 {
			each = fmt.Sprint(c.RUs / c.Partitions)
		}
		rows = append(rows, []string{c.Name, fmt.Sprint(c.RUs, mode), fmt.Sprint(c.Partitions), each, c.Wrong})
	}
	tables = append(tables, rows)
	if len(d.Measured) > 0 {
		rows = [][]string{{"operation", "took", "charged", "modelled", "factor", ""}}
		for _, m := range d.Measured {
			rows = append(rows, []string{m.Operation, milliseconds(m.Took), fmt.Sprintf("%.2f RU", m.Charged),
				fmt.Sprintf("%.2f RU", m.Modelled), fmt.Sprintf("%.2f", m.Factor), m.Problem})
		}
		tables = append(tables, rows)
	}
	if v := d.Verdict; v != nil {
		how := fmt.Sprintf("within %.0f %% of each charge", 100*v.Tolerance)
		if d.otherModel() {
			how += "; for --ru-factors measure with --ru-model " + v.Sizes
		}
		tables = append(tables, [][]string{{"verdict on sizes between rows", v.Sizes, how}})
	}
	if d.Factors != nil {
		tables = append(tables, [][]string{{"corrects the model (--ru-factors)", d.Factors.String()}})
	}
	for i, t := range tables {
		if i > 0 {
			fmt.Fprintln(env.Stdout)
		}
		if err := report.List(env.Stdout, t); err != nil {
			return err
		}
	}
	return nil
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
