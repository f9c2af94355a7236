package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/erasure"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/text/duration"
	"binnacle/internal/text/report"
)

// NewRollups makes a writer on an account. Its reads are of low priority: other requests come first.
func NewRollups(cfg rollups.Config, client *cosmos.Client, directory *control.Directory) (*rollups.Writer, error) {
	cfg.Now = client.Clock().Now
	cfg.Chunks, cfg.Rollups = client.Chunks().At(cosmos.Priority{Low: true}), client.Rollups()
	snapshot := FreshSnapshots(directory)
	cfg.Erasures = func(ctx context.Context, tenant string) (erasure.List, error) {
		v, err := snapshot(ctx)
		if err != nil {
			return nil, err
		}
		return v.Erasures(tenant), nil
	}
	return rollups.New(cfg)
}

// RollupsOfConfig names rollups of an account for what operators do about them.
type RollupsOfConfig struct {
	Rollups rollups.Config `kong:"embed,group='Rollups'"`

	Tenant string `help:"Only this tenant. Default: all."`
	From   string `help:"First day: a UTC day such as 2026-11-01, or a time in it, such as -2d. Default: --rollup-days back from today." placeholder:"TIME"`
	To     string `help:"Last day. Default: today." placeholder:"TIME"`

	// may is asked before anything is done; nil: nothing goes.
	may func(w *rollups.Writer, targets []rollups.Target) error
}

// RebuildConfig is RollupsOfConfig for rebuilding rollups.
type RebuildConfig struct {
	Of      RollupsOfConfig `kong:"embed"`
	Metrics []string        `name:"metric" help:"Rebuild only days on which one of these metrics has readings but no rollups, and these metrics first." placeholder:"METRIC"`
}

// rollupsOf returns a writer for a command, and the keys and days that it is about.
func rollupsOf(ctx context.Context, cfg RollupsOfConfig, client *cosmos.Client, env Env) (*rollups.Writer,
	[]rollups.Target, error) {
	directory := DirectoryOf(client, control.DirectoryConfig{})
	snapshot, err := directory.Refresh(ctx)
	if err != nil {
		return nil, nil, err
	}
	tenants := slices.DeleteFunc(snapshot.Tenants(), func(t tenant.Tenant) bool {
		return cfg.Tenant != "" && t.Name != cfg.Tenant
	})
	if cfg.Tenant != "" && len(tenants) == 0 {
		return nil, nil, fmt.Errorf("tenant %s: %w", cfg.Tenant, tenant.ErrNoTenant)
	}
	cfg.Rollups.Tenants, cfg.Rollups.Logger = func() []tenant.Tenant { return tenants }, env.Logger
	cfg.Rollups.Hold = cmp.Or(cfg.Rollups.Hold, DefaultHold)
	w, err := NewRollups(cfg.Rollups, client, directory)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	last := telemetry.DayOf(now.UnixMilli())
	first := last - telemetry.Day(cfg.Rollups.Days)
	for _, f := range []struct {
		flag, text string
		day        *telemetry.Day
	}{{"--from", cfg.From, &first}, {"--to", cfg.To, &last}} {
		if f.text == "" {
			continue
		}
		if *f.day, _, err = duration.ParseDayOf(f.text, now); err != nil {
			return nil, nil, fmt.Errorf("%s %q is neither a day such as 2026-11-20, nor a time such as -2d", f.flag, f.text)
		}
	}
	if first > last {
		return nil, nil, fmt.Errorf("--from %s is after --to %s", first, last)
	}
	var targets []rollups.Target
	for d := first; d <= last; d++ {
		targets = append(targets, w.TargetsOf(d)...)
	}
	return w, targets, nil
}

// Run rebuilds rollups, day by day, within the budget of --rollup-budget.
func (of RebuildConfig) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	cfg := of.Of
	cfg.Rollups.First = slices.Concat(of.Metrics, cfg.Rollups.First)
	build := func(w *rollups.Writer, t rollups.Target) ([]string, error) {
		if len(of.Metrics) > 0 {
			if lack, err := w.Omits(ctx, t, of.Metrics); err != nil || !lack {
				return nil, err
			}
		}
		r, err := w.Rebuild(ctx, t)
		if err == nil && r.Lost {
			err = errors.New("another writer was faster: do it again")
		}
		return []string{t.TenantShard, t.Day.String(), strconv.Itoa(r.Built.Count()), strconv.Itoa(r.Documents),
			strconv.Itoa(r.Bytes), fmt.Sprintf("%.0f", r.ReadRUs), fmt.Sprintf("%.0f", r.WriteRUs)}, err
	}
	return eachRollup(ctx, client, cfg, env, "rollups rebuild", build, "shard", "day", "hours", "documents", "bytes",
		"read RU", "write RU")
}

// DropRollups is RollupsOfConfig for taking rollups away.
type DropRollups struct {
	Of           RollupsOfConfig `kong:"embed"`
	Confirmation `kong:"embed"`
}

// Run takes rollups away: their days are read from chunks.
func (cfg DropRollups) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	of := cfg.Of
	of.may = func(w *rollups.Writer, targets []rollups.Target) error {
		goes, err := dropSays(ctx, w, targets)
		if err == nil {
			err = cfg.consent(env, cmp.Or(cfg.Of.Tenant, "all"))([]string{goes})
		}
		if errors.Is(err, errDryRun) {
			fmt.Fprintln(env.Stdout, goes)
		}
		return err
	}
	err := eachRollup(ctx, client, of, env, "rollups drop", func(w *rollups.Writer, t rollups.Target) ([]string, error) {
		return []string{t.TenantShard, t.Day.String()}, w.Drop(ctx, t)
	}, "shard", "day")
	if errors.Is(err, errDryRun) {
		return nil
	}
	return err
}

func dropSays(ctx context.Context, w *rollups.Writer, targets []rollups.Target) (string, error) {
	days, first, last := 0, telemetry.Day(0), telemetry.Day(0)
	documents, bytes := 0, 0
	for _, t := range targets {
		s, err := w.Status(ctx, t)
		if errors.Is(err, store.ErrNoContainer) || err == nil && s.Manifest == nil {
			continue
		}
		if err != nil {
			return "", err
		}
		if days++; days == 1 {
			first = t.Day
		}
		last = t.Day
		for _, m := range s.Metrics {
			documents, bytes = documents+m.Documents, bytes+m.Bytes
		}
	}
	if days == 0 {
		return "There are no rollups of these days.", nil
	}
	return fmt.Sprintf("This drops rollups from %s to %s: %s days of keys, %s documents of %s. Queries read chunks then, "+
		"until rollups rebuild has made them anew.", dayText(first), dayText(last), report.Thousands(days),
		report.Thousands(documents), megabytes(int64(bytes))), nil
}

// eachRollup does something about each key and day, records it as an action, and prints a row about each key and day.
func eachRollup(ctx context.Context, client *cosmos.Client, cfg RollupsOfConfig, env Env, verb string,
	do func(*rollups.Writer, rollups.Target) ([]string, error), head ...string) error {
	if err := cfg.Rollups.Validate(); err != nil {
		return err
	}
	w, targets, err := rollupsOf(ctx, cfg, client, env)
	if err == nil {
		err = client.Clock().Check()
	}
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return errors.New("no tenant has rollups of these days")
	}
	if cfg.may != nil {
		if err := cfg.may(w, targets); err != nil {
			return err
		}
	}
	action := control.Action{Verb: verb, Object: "rollups", Tenant: cfg.Tenant, Detail: map[string]string{
		"from": targets[0].Day.String(), "to": targets[len(targets)-1].Day.String()}}
	rows := [][]string{head}
	err = ActionsOf(client, "", env.Logger).Do(ctx, action, func(*control.Action) error {
		for _, t := range targets {
			row, err := do(w, t)
			if errors.Is(err, store.ErrNoContainer) {
				continue // the month has no readings, or no rollups
			}
			if err != nil {
				return err
			}
			if row != nil {
				rows = append(rows, row)
			}
		}
		return nil
	})
	return errors.Join(err, report.List(env.Stdout, rows))
}

// ListRollups is RollupsOfConfig for listing rollups.
type ListRollups struct {
	Of RollupsOfConfig `kong:"embed"`
}

// Run prints what rollups there are: per metric, with what they take.
func (cfg ListRollups) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	w, targets, err := rollupsOf(ctx, cfg.Of, client, env)
	if err != nil {
		return err
	}
	rows := [][]string{{"tenant", "day", "metric", "families", "hours", "documents", "KB", "write RU", "read RU",
		"asOf", "raw devices", "corrections"}}
	for _, t := range targets {
		s, err := w.Status(ctx, t)
		if errors.Is(err, store.ErrNoContainer) {
			continue
		}
		if err != nil {
			return err
		}
		if s.Manifest == nil {
			continue
		}
		of := func(metric, families string, l rollups.MetricStatus) {
			rows = append(rows, []string{t.TenantShard, t.Day.String(), metric, families, strconv.Itoa(l.Hours.Count()),
				strconv.Itoa(l.Documents), strconv.Itoa(l.Bytes >> 10), rus(l.WriteRUs), rus(l.ReadRUs),
				time.Unix(s.Manifest.AsOf, 0).UTC().Format(time.RFC3339), strconv.Itoa(len(s.Manifest.Raw)),
				strconv.Itoa(s.Corrections)})
		}
		for _, l := range s.Metrics {
			of(l.Metric, l.Families, l)
		}
		for _, metric := range s.Without {
			of(metric, "none", rollups.MetricStatus{})
		}
		if len(s.Metrics)+len(s.Without) == 0 {
			of("-", "none", rollups.MetricStatus{Hours: s.Manifest.MinuteHours()})
		}
	}
	return report.List(env.Stdout, rows)
}

func rus(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

// DefaultHold is the hold of ingesters with a journal.
const DefaultHold = 12 * time.Hour
