// Package purpose carries in a context what requests of the store are for.
package purpose

import (
	"context"

	"binnacle/internal/charges"
)

// Purpose says for which tenant and what requests of the store are sent, as far as they do not say it themselves. Bills
// are made of it.
type Purpose struct {
	// Tenant is the tenant that the requests are about; "" for none.
	Tenant string
	Kind   charges.Kind // "" for what each request is
	// Source is the source of a query.
	Source *charges.Source
}

type key struct{}

// With returns a context for the requests of a purpose. The purpose that the context had counts no more.
func With(ctx context.Context, p *Purpose) context.Context {
	return context.WithValue(ctx, key{}, p)
}

// Of returns the purpose of a context, nil for none.
func Of(ctx context.Context) *Purpose {
	p, _ := ctx.Value(key{}).(*Purpose)
	return p
}
