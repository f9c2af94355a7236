package store

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

type purposeKey struct{}

// WithPurpose returns a context for the requests of a purpose. The purpose that the context had counts no more.
func WithPurpose(ctx context.Context, p *Purpose) context.Context {
	return context.WithValue(ctx, purposeKey{}, p)
}

// PurposeOf returns the purpose of a context, nil for none.
func PurposeOf(ctx context.Context) *Purpose {
	p, _ := ctx.Value(purposeKey{}).(*Purpose)
	return p
}
