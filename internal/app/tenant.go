package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/duration"
	"binnacle/internal/report"
)

// TokenConfig is what `binnacle tenant token` works with.
type TokenConfig struct {
	Account AccountConfig `kong:"embed,group='Cosmos DB'"`
}

// operator returns what a person at a command line does with tenants; close ends it.
func (cfg TokenConfig) operator(log *slog.Logger) (o tenantOperator, close func(), err error) {
	client, err := cfg.Account.Connect(log)
	if err != nil {
		return o, nil, err
	}
	return newTenantOperator(client.Documents(), processIdentity(""), log), client.Close, nil
}

// ListTenants prints the tenants, or one; as JSON one a line.
func (cfg TokenConfig) ListTenants(ctx context.Context, name string, asJSON bool, env Env) error {
	o, done, err := cfg.operator(env.Logger)
	if err != nil {
		return err
	}
	defer done()
	if !asJSON {
		return listTenants(ctx, o.tenants, name, env)
	}
	infos, err := o.infos(ctx, name)
	for _, i := range infos {
		err = errors.Join(err, json.NewEncoder(env.Stdout).Encode(i))
	}
	return err
}

func listTenants(ctx context.Context, tenants *control.Tenants, name string, env Env) error {
	all, err := tenants.List(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{
		"tenant", "registered", "retention", "lookback", "averages", "query-rate", "query-concurrency", "query-rus",
		"query-rus-day", "query-samples", "ingest", "suspended",
	}}
	for _, t := range all {
		if name == "" || t.Name == name {
			l := t.Queries
			rows = append(rows, []string{t.Name, day(t.Created), retentionOf(t), orElse(t.Lookback, "default"),
				averagesOf(t), l.Rate.String(), l.Concurrency.String(), l.RUs.String(), l.RUsOfDay.String(), l.Samples.String(),
				readingsOf(t), suspendedSince(t)})
		}
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
	client, err := cfg.Account.Connect(env.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	all, err := control.NewTenants(client.Documents()).List(ctx)
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Name != name {
			continue
		}
		for _, line := range t.ExplainRetention(device, time.Now().UnixMilli()) {
			if _, err := fmt.Fprintln(env.Stdout, line); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("tenant %s: %w", name, control.ErrNoTenant)
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
	o, done, err := cfg.operator(env.Logger)
	if err != nil {
		return err
	}
	defer done()
	if err := o.add(ctx, name, retention); err != nil {
		return err
	}
	return listTenants(ctx, o.tenants, name, env)
}

// SetTenant changes settings of a tenant and prints the tenant.
func (cfg TokenConfig) SetTenant(ctx context.Context, name string, changes []control.Change, env Env) error {
	o, done, err := cfg.operator(env.Logger)
	if err != nil {
		return err
	}
	defer done()
	hides, err := o.set(ctx, name, changes)
	if err != nil {
		return err
	}
	for _, line := range hides {
		fmt.Fprintln(env.Stdout, line)
	}
	return listTenants(ctx, o.tenants, name, env)
}

// SuspendTenant has queries of a tenant refused.
func (cfg TokenConfig) SuspendTenant(ctx context.Context, name, reason string, env Env) error {
	o, done, err := cfg.operator(env.Logger)
	if err != nil {
		return err
	}
	defer done()
	return o.suspend(ctx, name, reason)
}

// ResumeTenant has queries of a tenant answered again.
func (cfg TokenConfig) ResumeTenant(ctx context.Context, name string, env Env) error {
	o, done, err := cfg.operator(env.Logger)
	if err != nil {
		return err
	}
	defer done()
	return o.resume(ctx, name)
}

// AddToken creates a token and prints it: it is shown only once. It expires after a duration such as 90d, or never.
func (cfg TokenConfig) AddToken(ctx context.Context, t control.Token, expires string, env Env) error {
	o, done, err := cfg.operator(env.Logger)
	if err != nil {
		return err
	}
	defer done()
	secret, _, err := o.addToken(ctx, t, expires)
	if secret != "" { // also where it was not stored that it is done: the token is good
		_, failed := fmt.Fprintln(env.Stdout, secret)
		err = errors.Join(err, failed)
	}
	return err
}

// ListTokens prints the tokens of a tenant, or of all with an empty name; as JSON one a line.
func (cfg TokenConfig) ListTokens(ctx context.Context, tenant string, asJSON bool, env Env) error {
	o, done, err := cfg.operator(env.Logger)
	if err != nil {
		return err
	}
	defer done()
	all, err := o.listTokens(ctx, tenant)
	if err != nil {
		return err
	}
	rows := [][]string{{"id", "tenant", "scopes", "created", "expires", "state", "note"}}
	for _, t := range all {
		if asJSON {
			if err := json.NewEncoder(env.Stdout).Encode(t); err != nil {
				return err
			}
		}
		rows = append(rows, []string{t.ID, t.Tenant, scopes(t.Scopes), day(t.Created), day(t.Expires), t.State, t.Note})
	}
	if asJSON {
		return nil
	}
	return report.List(env.Stdout, rows)
}

// RevokeToken ends a token.
func (cfg TokenConfig) RevokeToken(ctx context.Context, id string, env Env) error {
	o, done, err := cfg.operator(env.Logger)
	if err != nil {
		return err
	}
	defer done()
	return o.revokeToken(ctx, "", id)
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
