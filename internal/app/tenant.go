package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/duration"
	"binnacle/internal/provision"
	"binnacle/internal/report"
	"binnacle/internal/store"
)

// TokenConfig is what `binnacle tenant token` works with.
type TokenConfig struct {
	Account AccountConfig `kong:"embed,group='Cosmos DB'"`
}

// ListTenants prints the tenants, or one; as JSON one a line.
func (cfg TokenConfig) ListTenants(ctx context.Context, name string, asJSON bool, env Env) error {
	client, err := cfg.Account.Connect(env.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	tenants := control.NewTenants(client.Documents())
	if !asJSON {
		return listTenants(ctx, tenants, name, env)
	}
	infos, err := tenantInfos(ctx, tenants, name)
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

// SetTenant changes settings of a tenant and prints the tenant.
func (cfg TokenConfig) SetTenant(ctx context.Context, name string, changes []control.Change, env Env) error {
	client, err := cfg.Account.Connect(env.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	tenants := control.NewTenants(client.Documents())
	detail := map[string]string{}
	for _, c := range changes {
		what, value, _ := strings.Cut(c.String(), " ")
		detail[what] = value
	}
	lines, err := checkRetention(ctx, client.Documents(), name, detail["retention"])
	if err != nil {
		return err
	}
	for _, line := range lines {
		fmt.Fprintln(env.Stdout, line)
	}
	err = actionsOf(client, "", env.Logger).Do(ctx, control.Action{Verb: "tenant set", Tenant: name, Detail: detail},
		func(*control.Action) error { return tenants.Set(ctx, name, changes...) })
	if err != nil {
		return err
	}
	return listTenants(ctx, tenants, name, env)
}

// checkRetention returns what a shorter retention hides, and an error if a longer one would need more containers than
// an account may have.
func checkRetention(
	ctx context.Context, docs control.Documents, name, retention string,
) (hides []string, err error) {
	if retention == "" {
		return nil, nil
	}
	v, err := control.NewDirectory(control.DirectoryConfig{Documents: docs}).Refresh(ctx)
	if err != nil {
		return nil, err
	}
	tenants := v.Tenants()
	i := slices.IndexFunc(tenants, func(t control.Tenant) bool { return t.Name == name })
	if i < 0 {
		return nil, nil // Set says so
	}
	if hides, err = tenants[i].Vanishing(retention, time.Now().UnixMilli()); err != nil {
		return nil, err
	}
	before := tenants[i].Retention
	keep, err := tenants[i].LongestRetention(retention)
	if err != nil || before <= 0 || keep > 0 && keep <= before {
		return hides, err // it needs no more than now
	}
	tenants[i].Retention = keep
	policy := provision.DefaultPolicy()
	policy.RollupsRUs = devRollupsRUs // containers of rollups count, whatever their throughput is
	return hides, policy.CheckPeriod(v.Period().Period, tenants, 1+len(store.BaseContainers()))
}

// SuspendTenant has queries of a tenant refused.
func (cfg TokenConfig) SuspendTenant(ctx context.Context, name, reason string, env Env) error {
	change, err := control.SuspendChange(reason, time.Now())
	if err != nil {
		return err
	}
	a := control.Action{Verb: "tenant suspend", Tenant: name, Detail: map[string]string{"reason": reason}}
	return cfg.changeTenant(ctx, a, change, env)
}

// ResumeTenant has queries of a tenant answered again.
func (cfg TokenConfig) ResumeTenant(ctx context.Context, name string, env Env) error {
	return cfg.changeTenant(ctx, control.Action{Verb: "tenant resume", Tenant: name}, control.ResumeChange(), env)
}

func (cfg TokenConfig) changeTenant(ctx context.Context, a control.Action, c control.Change, env Env) error {
	client, err := cfg.Account.Connect(env.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	return actionsOf(client, "", env.Logger).Do(ctx, a, func(*control.Action) error {
		return control.NewTenants(client.Documents()).Set(ctx, a.Tenant, c)
	})
}

// tokenStore is the tokens of an account and the record of actions on them.
type tokenStore struct {
	*control.Tokens
	actions *control.Actions
}

func (cfg TokenConfig) tokens(log *slog.Logger) (tokens tokenStore, close func(), err error) {
	client, err := cfg.Account.Connect(log)
	if err != nil {
		return tokenStore{}, nil, err
	}
	return tokenStore{control.NewTokens(client.Documents()), actionsOf(client, "", log)}, client.Close, nil
}

// AddToken creates a token with a lifetime, 0 for unlimited, and prints it: it is shown only once.
func (cfg TokenConfig) AddToken(ctx context.Context, t control.Token, lasts time.Duration, env Env) error {
	tokens, done, err := cfg.tokens(env.Logger)
	if err != nil {
		return err
	}
	defer done()
	t.Created = time.Now()
	if lasts > 0 {
		t.Expires = t.Created.Add(lasts)
	}
	var secret string
	err = tokens.actions.Do(ctx, control.Action{Verb: "token add", Tenant: t.Tenant, Detail: map[string]string{
		"scopes": scopes(t), "expires": day(t.Expires), "note": t.Note,
	}}, func(a *control.Action) (err error) {
		secret, t, err = tokens.Add(ctx, t)
		a.Object = t.ID
		return err
	})
	if secret != "" { // also where it was not stored that it is done: the token is good
		_, failed := fmt.Fprintln(env.Stdout, secret)
		err = errors.Join(err, failed)
	}
	return err
}

func scopes(t control.Token) string {
	var names []string
	for _, s := range t.Scopes {
		names = append(names, string(s))
	}
	return strings.Join(names, ",")
}

// ListTokens prints the tokens of a tenant, or of all with an empty name.
func ListTokens(ctx context.Context, cfg TokenConfig, tenant string, env Env) error {
	tokens, done, err := cfg.tokens(env.Logger)
	if err != nil {
		return err
	}
	defer done()
	all, err := tokens.List(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"id", "tenant", "scopes", "created", "expires", "state", "note"}}
	now := time.Now()
	for _, t := range all {
		if tenant != "" && t.Tenant != tenant {
			continue
		}
		state, ended := t.Ended(now)
		if !ended {
			state = "good"
		}
		rows = append(rows, []string{t.ID, t.Tenant, scopes(t), day(t.Created), day(t.Expires), state,
			t.Note})
	}
	return report.List(env.Stdout, rows)
}

func day(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.DateOnly)
}

// RevokeToken ends a token.
func RevokeToken(ctx context.Context, cfg TokenConfig, id string, env Env) error {
	tokens, done, err := cfg.tokens(env.Logger)
	if err != nil {
		return err
	}
	defer done()
	return tokens.actions.Do(ctx, control.Action{Verb: "token revoke", Object: id}, func(*control.Action) error {
		return tokens.Revoke(ctx, id, time.Now())
	})
}
