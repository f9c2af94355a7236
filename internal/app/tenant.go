package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/duration"
	"binnacle/internal/report"
)

// TokenConfig is what most of `binnacle tenant` works with.
type TokenConfig struct {
	Account AccountConfig `kong:"embed,group='Cosmos DB'"`

	JSON bool `name:"json" help:"Print JSON; of a list, one element a line."`
}

// operate does something as the person at the command line.
func (cfg TokenConfig) operate(env Env, do func(o tenantOperator) error) error {
	client, err := cfg.Account.Connect(env.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	o := newTenantOperator(client.Documents(), processIdentity(""), env.Logger)
	o.catalog = client.Catalog()
	return do(o)
}

// change changes a tenant and prints it. do returns what the change hides.
func (cfg TokenConfig) change(ctx context.Context, name string, env Env, do func(o tenantOperator) ([]string, error),
) error {
	return cfg.operate(env, func(o tenantOperator) error {
		hides, err := do(o)
		if err != nil {
			return err
		}
		if cfg.JSON {
			infos, err := o.infos(ctx, name)
			if err != nil {
				return err
			}
			infos[0].Hides = hides
			return json.NewEncoder(env.Stdout).Encode(infos[0])
		}
		for _, line := range hides {
			fmt.Fprintln(env.Stdout, line)
		}
		return o.print(ctx, name, env)
	})
}

// ListTenants prints the tenants, or one.
func (cfg TokenConfig) ListTenants(ctx context.Context, name string, env Env) error {
	return cfg.operate(env, func(o tenantOperator) error {
		if !cfg.JSON {
			return o.print(ctx, name, env)
		}
		infos, err := o.infos(ctx, name)
		return errors.Join(err, printEach(env, infos))
	})
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

func (o tenantOperator) print(ctx context.Context, name string, env Env) error {
	all, err := o.list(ctx, name)
	if err != nil {
		return err
	}
	rows := [][]string{{
		"tenant", "registered", "retention", "lookback", "averages", "query-rate", "query-concurrency", "query-rus",
		"query-rus-day", "query-samples", "ingest", "suspended",
	}}
	for _, t := range all {
		l := t.Queries
		rows = append(rows, []string{t.Name, day(t.Created), retentionOf(t), orElse(t.Lookback, "default"),
			averagesOf(t), l.Rate.String(), l.Concurrency.String(), l.RUs.String(), l.RUsOfDay.String(), l.Samples.String(),
			readingsOf(t), suspendedSince(t)})
	}
	return report.List(env.Stdout, rows)
}

// retentionOf formats a tenant's retention: classes of devices if there are any.
func retentionOf(t control.Tenant) string {
	if len(t.RetentionClasses()) > 1 {
		return t.RetentionText()
	}
	return orElse(t.Retention, "forever")
}

// ExplainRetention prints which days of a device are gone, and when the others go.
func (cfg TokenConfig) ExplainRetention(ctx context.Context, name, device string, env Env) error {
	return cfg.operate(env, func(o tenantOperator) error {
		lines, err := o.explainRetention(ctx, name, device)
		if err != nil {
			return err
		}
		if cfg.JSON {
			return json.NewEncoder(env.Stdout).Encode(map[string]any{"tenant": name, "device": device, "retention": lines})
		}
		_, err = fmt.Fprintln(env.Stdout, strings.Join(lines, "\n"))
		return err
	})
}

// explainRetention returns which days of a device are gone, and when the others go, in sentences.
func (o tenantOperator) explainRetention(ctx context.Context, name, device string) ([]string, error) {
	t, err := o.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.ExplainRetention(device, time.Now().UnixMilli()), nil
}

func averagesOf(t control.Tenant) string {
	if t.NearestAverages {
		return string(control.NearestAverages)
	}
	return string(control.ExactAverages)
}

// readingsOf returns the limits of readings that were set, by the names of their flags without ingest-.
func readingsOf(t control.Tenant) string {
	var parts []string
	for _, s := range t.Settings() {
		if name, ok := strings.CutPrefix(s.Name, "ingest-"); ok && s.Value != control.Unset.String() {
			parts = append(parts, name+"="+s.Value)
		}
	}
	return cmp.Or(strings.Join(parts, " "), control.Unset.String())
}

func suspendedSince(t control.Tenant) string {
	if t.Suspended == nil {
		return "no"
	}
	return "since " + day(t.Suspended.Since)
}

// orElse formats a duration; 0 is none.
func orElse(d time.Duration, none string) string {
	if d == 0 {
		return none
	}
	return duration.String(d)
}

// AddTenant registers a tenant before its first reading, and prints it.
func (cfg TokenConfig) AddTenant(ctx context.Context, name string, retention time.Duration, env Env) error {
	return cfg.change(ctx, name, env, func(o tenantOperator) ([]string, error) {
		return nil, o.add(ctx, name, retention)
	})
}

// SetTenant changes settings of a tenant and prints the tenant.
func (cfg TokenConfig) SetTenant(ctx context.Context, name string, changes []control.Change, env Env) error {
	return cfg.change(ctx, name, env, func(o tenantOperator) ([]string, error) { return o.set(ctx, name, changes) })
}

// SuspendTenant has queries of a tenant refused, and prints the tenant.
func (cfg TokenConfig) SuspendTenant(ctx context.Context, name, reason string, env Env) error {
	return cfg.change(ctx, name, env, func(o tenantOperator) ([]string, error) {
		return nil, o.suspend(ctx, name, reason)
	})
}

// ResumeTenant has queries of a tenant answered again, and prints the tenant.
func (cfg TokenConfig) ResumeTenant(ctx context.Context, name string, env Env) error {
	return cfg.change(ctx, name, env, func(o tenantOperator) ([]string, error) { return nil, o.resume(ctx, name) })
}

// AddToken creates a token and prints it: it is shown only once. It expires after a duration such as 90d, or never.
func (cfg TokenConfig) AddToken(ctx context.Context, t control.Token, expires string, env Env) error {
	return cfg.operate(env, func(o tenantOperator) error {
		secret, info, err := o.addToken(ctx, t, expires)
		if secret == "" {
			return err
		}
		// also where it was not stored that it is done: the token is good
		if cfg.JSON {
			info.Secret = secret
			return errors.Join(err, json.NewEncoder(env.Stdout).Encode(info))
		}
		_, failed := fmt.Fprintln(env.Stdout, secret)
		return errors.Join(err, failed)
	})
}

// ListTokens prints the tokens of a tenant, or of all with an empty name.
func (cfg TokenConfig) ListTokens(ctx context.Context, tenant string, env Env) error {
	return cfg.operate(env, func(o tenantOperator) error {
		all, err := o.listTokens(ctx, tenant)
		if err != nil {
			return err
		}
		if cfg.JSON {
			return printEach(env, all)
		}
		rows := [][]string{{"id", "tenant", "scopes", "created", "expires", "state", "note"}}
		for _, t := range all {
			rows = append(rows, []string{t.ID, t.Tenant, scopes(t.Scopes), day(t.Created), day(t.Expires), t.State, t.Note})
		}
		return report.List(env.Stdout, rows)
	})
}

// RevokeToken ends a token.
func (cfg TokenConfig) RevokeToken(ctx context.Context, id string, env Env) error {
	return cfg.operate(env, func(o tenantOperator) error {
		if err := o.revokeToken(ctx, "", id); err != nil || !cfg.JSON {
			return err
		}
		return json.NewEncoder(env.Stdout).Encode(map[string]string{"id": id, "state": "revoked"})
	})
}

func scopes(all []control.Scope) string {
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
