package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/tenant"
	"binnacle/internal/text/duration"
	"binnacle/internal/text/report"
)

// TokenInfo is a token without its secret.
type TokenInfo struct {
	ID      string         `json:"id"`
	Tenant  string         `json:"tenant"`
	Scopes  []tenant.Scope `json:"scopes"`
	Created time.Time      `json:"created"`
	Expires time.Time      `json:"expires,omitzero"` // absent: never
	State   string         `json:"state"`            // good, expired, revoked or damaged
	Note    string         `json:"note,omitempty"`
	Secret  string         `json:"token,omitempty"` // only of a new one
}

func tokenInfo(t tenant.Token, now time.Time) TokenInfo {
	state, ended := t.Ended(now)
	if !ended {
		state = "good"
	}
	return TokenInfo{ID: t.ID, Tenant: t.Tenant, Scopes: append([]tenant.Scope{}, t.Scopes...), Created: t.Created,
		Expires: t.Expires, State: state, Note: t.Note}
}

// listTokens returns the tokens of a tenant, or of all with an empty name.
func (o tenantOperator) listTokens(ctx context.Context, tenant string) ([]TokenInfo, error) {
	all, err := o.tokens.List(ctx)
	out, now := []TokenInfo{}, time.Now()
	for _, t := range all {
		if tenant == "" || t.Tenant == tenant {
			out = append(out, tokenInfo(t, now))
		}
	}
	return out, err
}

// addToken creates a token of a tenant that is registered. It expires after a duration, or never.
func (o tenantOperator) addToken(ctx context.Context, t tenant.Token, expires string) (
	secret string, info TokenInfo, err error,
) {
	t.Created = time.Now().UTC().Truncate(time.Millisecond) // the precision of its document
	if expires != "never" {
		lasts, err := duration.Parse(expires)
		if err != nil || lasts <= 0 {
			return "", info, unfit("expires is a duration such as 90d, or never, and not %q", expires)
		}
		t.Expires = t.Created.Add(lasts)
	}
	if err := t.Check(); err != nil {
		return "", info, unfitError{err}
	}
	if err := o.check(ctx, t.Tenant); err != nil {
		if errors.Is(err, tenant.ErrNoTenant) {
			err = fmt.Errorf("%w; tenant add registers it before its first reading", err)
		}
		return "", info, err
	}
	err = o.actions.Do(ctx, control.Action{Verb: "token add", Tenant: t.Tenant, Detail: map[string]string{
		"scopes": scopes(t.Scopes), "expires": day(t.Expires), "note": t.Note,
	}}, func(a *control.Action) (err error) {
		secret, t, err = o.tokens.Add(ctx, t)
		a.Object = t.ID
		return err
	})
	return secret, tokenInfo(t, t.Created), err
}

// revokeToken ends a token, of any tenant with an empty name.
func (o tenantOperator) revokeToken(ctx context.Context, name, id string) error {
	a := control.Action{Verb: "token revoke", Tenant: name, Object: id}
	return o.actions.Do(ctx, a, func(a *control.Action) error {
		all, err := o.listTokens(ctx, name)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(t TokenInfo) bool { return t.ID == id })
		if i < 0 {
			return fmt.Errorf("revoke token %s: %w", id, tenant.ErrNoToken)
		}
		a.Tenant = all[i].Tenant
		return o.tokens.Revoke(ctx, id, time.Now())
	})
}

// AddToken is what `binnacle tenant token add` works with.
type AddToken struct {
	Tenant  string         `arg:"" help:"Tenant that the token gives access to."`
	Scopes  []tenant.Scope `help:"Scopes of the token: read, write, admin." default:"read"`
	Expires string         `help:"Lifetime of the token, such as 90d, or never." required:"" placeholder:"DURATION"`
	Note    string         `help:"Note that token list shows, such as the user of the token."`

	Output `kong:"embed"`
}

// Run creates a token and prints it: it is shown only once.
func (cfg AddToken) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	t := tenant.Token{Tenant: cfg.Tenant, Scopes: cfg.Scopes, Note: cfg.Note}
	secret, info, err := cfg.on(client, env).addToken(ctx, t, cfg.Expires)
	if secret == "" {
		return err
	}
	// also where it was not stored that it is done: the token is good
	info.Secret = secret
	return errors.Join(err, env.print(cfg.JSON, info, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, secret)
		return err
	}))
}

// ListTokens is what `binnacle tenant token list` works with.
type ListTokens OfTenants

// Run prints the tokens of a tenant, or of all with an empty name.
func (cfg ListTokens) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	all, err := cfg.on(client, env).listTokens(ctx, cfg.Tenant)
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
}

// RevokeToken is what `binnacle tenant token revoke` works with.
type RevokeToken struct {
	ID string `arg:"" name:"id" help:"Id of the token as listed: the part between its underscores."`

	Output `kong:"embed"`
}

// Run ends a token.
func (cfg RevokeToken) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	if err := cfg.on(client, env).revokeToken(ctx, "", cfg.ID); err != nil || !cfg.JSON {
		return err
	}
	return json.NewEncoder(env.Stdout).Encode(map[string]string{"id": cfg.ID, "state": "revoked"})
}
