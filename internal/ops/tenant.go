package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/tenant"
	"binnacle/internal/text/report"
	"binnacle/sharding"
)

// Output sets how commands of `binnacle tenant` print.
type Output struct {
	JSON bool `name:"json" help:"Print JSON; of a list, one element a line."`
}

// OfTenant names a tenant.
type OfTenant struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Output `kong:"embed"`
}

// OfTenants names a tenant, or all.
type OfTenants struct {
	Tenant string `arg:"" optional:"" help:"Tenant to list. Default: all."`

	Output `kong:"embed"`
}

// tenantCommand is a tenantOperator for the person at the command line.
type tenantCommand struct {
	tenantOperator
	env    Env
	asJSON bool
}

// on returns what changes tenants of an account and prints them.
func (cfg Output) on(client *cosmos.Client, env Env) tenantCommand {
	return tenantCommand{newTenantOperator(client.Documents(), ProcessIdentity(""), env.Logger).on(client), env, cfg.JSON}
}

func hidesNothing([]string) error { return nil }

// consent returns how a command has what goes confirmed: by a flag, or on the terminal.
func (c Confirmation) consent(env Env, name string) consent {
	return func(goes []string) error {
		switch {
		case c.DryRun:
			return errDryRun
		case len(goes) == 0:
			return nil
		}
		return c.confirmed(env.Ask, name, goes)
	}
}

// changed prints a tenant after a change that hides something, or what a change would hide.
func (c tenantCommand) changed(ctx context.Context, name string, hides []string, changed error) error {
	answer, err := c.outcome(ctx, name, hides, changed)
	if err != nil {
		return err
	}
	return c.env.print(c.asJSON, answer, func(w io.Writer) error {
		if changed != nil { // a dry run
			_, err := fmt.Fprintln(w, cmp.Or(strings.Join(hides, "\n"), "It hides nothing."))
			return err
		}
		for _, line := range hides {
			fmt.Fprintln(w, line)
		}
		return c.print(ctx, name)
	})
}

// ListTenants is what `binnacle tenant list` works with.
type ListTenants OfTenants

// Run prints the tenants, or one.
func (cfg ListTenants) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	o := cfg.on(client, env)
	if !cfg.JSON {
		return o.print(ctx, cfg.Tenant)
	}
	infos, err := o.infos(ctx, cfg.Tenant)
	return errors.Join(err, printEach(env, infos))
}

// printEach prints elements as JSON, one a line.
func printEach[T any](env Env, all []T) error {
	out := json.NewEncoder(env.Stdout)
	for _, x := range all {
		if err := out.Encode(x); err != nil {
			return err
		}
	}
	return nil
}

func (o tenantCommand) print(ctx context.Context, name string) error {
	all, err := o.list(ctx, name)
	if err != nil {
		return err
	}
	rows := [][]string{{
		"tenant", "registered", "retention", "lookback", "query-rate", "query-concurrency", "query-rus",
		"query-rus-day", "query-samples", "ingest", "suspended",
	}}
	for _, t := range all {
		l := t.Queries
		rows = append(rows, []string{t.Name, day(t.Created), retentionOf(t), orElse(t.Lookback, "default"),
			l.Rate.String(), l.Concurrency.String(), l.RUs.String(), l.RUsOfDay.String(), l.Samples.String(),
			readingsOf(t), suspendedSince(t)})
	}
	return report.List(o.env.Stdout, rows)
}

// retentionOf formats a tenant's retention: classes of devices if there are any.
func retentionOf(t tenant.Tenant) string {
	text := t.RetentionText()
	if len(t.RetentionClasses()) == 1 {
		text = orElse(t.RetentionClasses()[0].Keep, "forever")
	}
	if at, coming := t.RetentionComes(); coming {
		text += " from " + at.Format(time.RFC3339) + " on"
	}
	return text
}

// readingsOf returns the limits of readings that were set, by the names of their flags without ingest-.
func readingsOf(t tenant.Tenant) string {
	var parts []string
	for _, s := range t.Settings() {
		if name, ok := strings.CutPrefix(s.Name, "ingest-"); ok && s.Value != tenant.Unset.String() {
			parts = append(parts, name+"="+s.Value)
		}
	}
	return cmp.Or(strings.Join(parts, " "), tenant.Unset.String())
}

func suspendedSince(t tenant.Tenant) string {
	if t.Suspended == nil {
		return "no"
	}
	return "since " + day(t.Suspended.Since)
}

// AddTenant is what `binnacle tenant add` works with.
type AddTenant struct {
	Tenant    string        `arg:"" help:"Name of the tenant."`
	Retention time.Duration `help:"Retention of its readings, such as 400d; the ingesters' --retention does not count for it. Default: unlimited."`

	Output `kong:"embed"`
}

// Run registers a tenant before its first reading, and prints it.
func (cfg AddTenant) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	o := cfg.on(client, env)
	return o.changed(ctx, cfg.Tenant, nil, o.add(ctx, cfg.Tenant, cfg.Retention))
}

// PinTenant is what `binnacle tenant pin` works with.
type PinTenant struct {
	Tenant string `arg:"" help:"Name of the tenant."`
	Keys   int    `help:"Number of first-level keys, from the next day that is decided on. The balancer chooses where they are." xor:"pin" placeholder:"N"`
	Keep   bool   `help:"Keep the keys as they are." xor:"pin"`
	Free   bool   `help:"Leave all to the balancer again." xor:"pin"`

	Output `kong:"embed"`
}

// Run sets whether the balancer changes a tenant's keys, and prints the tenant.
func (cfg PinTenant) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	if cfg.Keys == 0 && !cfg.Keep && !cfg.Free {
		return errors.New("nothing to pin: give --keys, --keep or --free")
	}
	pin, err := tenant.PinChange(sharding.Pin{Keep: cfg.Keep, Keys: cfg.Keys})
	if err != nil {
		return err
	}
	o := cfg.on(client, env)
	hides, err := o.set(ctx, cfg.Tenant, []tenant.Change{pin}, hidesNothing)
	return o.changed(ctx, cfg.Tenant, hides, err)
}

// SuspendTenant is what `binnacle tenant suspend` works with.
type SuspendTenant struct {
	Tenant string `arg:"" help:"Name of the tenant."`
	Reason string `help:"Reason. Refused queries are answered with it." required:""`

	Output `kong:"embed"`
}

// Run has queries of a tenant refused, and prints the tenant.
func (cfg SuspendTenant) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	o := cfg.on(client, env)
	return o.changed(ctx, cfg.Tenant, nil, o.suspend(ctx, cfg.Tenant, cfg.Reason))
}

// ResumeTenant is what `binnacle tenant resume` works with.
type ResumeTenant OfTenant

// Run has queries of a tenant answered again, and prints the tenant.
func (cfg ResumeTenant) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	o := cfg.on(client, env)
	return o.changed(ctx, cfg.Tenant, nil, o.resume(ctx, cfg.Tenant))
}

func scopes(all []tenant.Scope) string {
	var names []string
	for _, s := range all {
		names = append(names, string(s))
	}
	return strings.Join(names, ",")
}

func day(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.DateOnly)
}

// NewTenant returns a tenant as a process will register it.
func NewTenant(retention time.Duration) (*tenant.Tenant, error) {
	where, err := sharding.NewPlacement("new", []sharding.Epoch{sharding.FirstEpoch("new", 1)})
	return &tenant.Tenant{Retention: retention, Placement: where}, err
}

// Confirmation is how a person confirms what can't be undone, of every command that hides or deletes.
type Confirmation struct {
	Confirm string `help:"Name of the tenant again, or all if none is named, to confirm what goes for good. Default: the terminal is asked." placeholder:"NAME"`
	DryRun  bool   `help:"Show what would go, and change nothing."`
}

// errNotConfirmed says that nothing was changed, because no confirmation came.
var errNotConfirmed = errors.New("nothing is changed")

// confirmed reports whether what goes was confirmed by its name: by the flag, or by an answer on the terminal. A name
// that is given and differs is an error, and so is a missing one without a terminal.
func (c Confirmation) confirmed(ask func(question string) (string, error), name string, goes []string) error {
	said := c.Confirm
	if said == "" && ask != nil {
		var err error
		question := strings.Join(goes, "\n") + fmt.Sprintf("\nType %s to confirm it: ", name)
		if said, err = ask(question); err != nil {
			return fmt.Errorf("%w: %w", errNotConfirmed, err)
		}
		if said != name {
			return fmt.Errorf("%w: the answer is not %s", errNotConfirmed, name)
		}
	}
	if said != name {
		return unfitError{fmt.Errorf("%w: %s: repeat with --confirm %s", errNotConfirmed,
			strings.TrimSuffix(strings.Join(goes, " "), "."), name)}
	}
	return nil
}
