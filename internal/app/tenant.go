package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/report"
)

// TokenConfig is what `binnacle tenant token` works with.
type TokenConfig struct {
	Account AccountConfig `kong:"embed,group='Cosmos DB'"`
}

// tokens connects to the account.
func (c TokenConfig) tokens(log *slog.Logger) (tokens *control.Tokens, close func(), err error) {
	client, err := c.Account.Connect(log)
	if err != nil {
		return nil, nil, err
	}
	return control.NewTokens(client.Documents()), client.Close, nil
}

// AddToken makes a token, good for so long or, with 0, for ever, and prints it: it is shown this once.
func AddToken(ctx context.Context, cfg TokenConfig, t control.Token, lasts time.Duration, env Env) error {
	tokens, done, err := cfg.tokens(env.Logger)
	if err != nil {
		return err
	}
	defer done()
	t.Created = time.Now()
	if lasts > 0 {
		t.Expires = t.Created.Add(lasts)
	}
	secret, _, err := tokens.Add(ctx, t)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.Stdout, secret)
	return err
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
		var scopes []string
		for _, s := range t.Scopes {
			scopes = append(scopes, string(s))
		}
		rows = append(rows, []string{t.ID, t.Tenant, strings.Join(scopes, ","), day(t.Created), day(t.Expires), state,
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
	return tokens.Revoke(ctx, id, time.Now())
}
