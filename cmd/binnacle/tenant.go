package main

import (
	"time"

	"binnacle/internal/app"
	"binnacle/internal/control"
)

// tenantCommand is what operators do about tenants.
type tenantCommand struct {
	Token struct {
		Add    tokenAddCommand    `cmd:"" help:"Make a token and print it. It is shown this once."`
		List   tokenListCommand   `cmd:"" help:"List tokens, without what is secret of them."`
		Revoke tokenRevokeCommand `cmd:"" help:"End a token within half a minute."`
	} `cmd:"" help:"Bearer tokens with which a tenant is asked for."`
}

type tokenAddCommand struct {
	Tenant  string          `arg:"" help:"Whose readings the bearer may ask for."`
	Scopes  []control.Scope `help:"What for: read, write, admin." default:"read"`
	Expires time.Duration   `help:"How long it is good, such as 90d. Default: for ever."`
	Note    string          `help:"Whom it is for; listed."`

	Config app.TokenConfig `kong:"embed"`
}

// Help is shown below the flags.
func (tokenAddCommand) Help() string {
	return `Examples:
  binnacle tenant token add acme
  binnacle tenant token add acme --scopes read,admin --expires 90d --note "Grafana of the fleet team"`
}

// Run is called by kong.
func (c *tokenAddCommand) Run(e *env) error {
	t := control.Token{Tenant: c.Tenant, Scopes: c.Scopes, Note: c.Note}
	return app.AddToken(e.ctx, c.Config, t, c.Expires, e.app())
}

type tokenListCommand struct {
	Tenant string `arg:"" optional:"" help:"Of this tenant only."`

	Config app.TokenConfig `kong:"embed"`
}

// Run is called by kong.
func (c *tokenListCommand) Run(e *env) error {
	return app.ListTokens(e.ctx, c.Config, c.Tenant, e.app())
}

type tokenRevokeCommand struct {
	ID string `arg:"" name:"id" help:"As listed: the part of the token between its underscores."`

	Config app.TokenConfig `kong:"embed"`
}

// Run is called by kong.
func (c *tokenRevokeCommand) Run(e *env) error {
	return app.RevokeToken(e.ctx, c.Config, c.ID, e.app())
}
