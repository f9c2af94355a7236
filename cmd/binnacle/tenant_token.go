package main

import (
	"binnacle/internal/app"
	"binnacle/internal/control"
)

type tokenAddCommand struct {
	Tenant  string          `arg:"" help:"Tenant that the token gives access to."`
	Scopes  []control.Scope `help:"Scopes of the token: read, write, admin." default:"read"`
	Expires string          `help:"Lifetime of the token, such as 90d, or never." required:"" placeholder:"DURATION"`
	Note    string          `help:"Note that token list shows, such as the user of the token."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tokenAddCommand) Run(e *env) error {
	t := control.Token{Tenant: c.Tenant, Scopes: c.Scopes, Note: c.Note}
	return c.Config.AddToken(e.ctx, t, c.Expires, e.app())
}

type tokenListCommand struct {
	Tenant string `arg:"" optional:"" help:"Tenant to list. Default: all."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tokenListCommand) Run(e *env) error {
	return c.Config.ListTokens(e.ctx, c.Tenant, e.app())
}

type tokenRevokeCommand struct {
	ID string `arg:"" name:"id" help:"Id of the token as listed: the part between its underscores."`

	Config app.TokenConfig `kong:"embed"`
}

func (c *tokenRevokeCommand) Run(e *env) error {
	return c.Config.RevokeToken(e.ctx, c.ID, e.app())
}
