package tenant

import (
	"binnacle/internal/store"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNoTenant says that a tenant is not registered.
var ErrNoTenant = errors.New("there is no such tenant")

// Tenants lists tenants and changes what operators may change about them. It holds no state and is safe for any number
// of callers.
type Tenants struct{ docs store.Documents }

// NewTenants makes Tenants over the control documents.
func NewTenants(docs store.Documents) *Tenants { return &Tenants{docs} }

// List returns all tenants, by name.
func (t *Tenants) List(ctx context.Context) ([]Tenant, error) {
	docs, err := t.docs.List(ctx, Kind)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	epochs, err := t.docs.List(ctx, KindEpoch)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	byName, broken, err := Of(docs, epochs, nil)
	if err := cmp.Or(err, broken.First()); err != nil {
		return nil, err
	}
	out := make([]Tenant, 0, len(docs))
	for _, d := range docs {
		out = append(out, byName[d.ID])
	}
	slices.SortFunc(out, func(a, b Tenant) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Set changes a tenant, all in one write. Roles know it when they have read the tenants again. Properties that this
// version does not know stay as they are. It fails with ErrNoTenant if there is no such tenant.
func (t *Tenants) Set(ctx context.Context, name string, changes ...Change) error {
	err := store.Contend(ctx, func() error { return t.set(ctx, name, changes) })
	if err != nil {
		return fmt.Errorf("change tenant %s: %w", name, err)
	}
	return nil
}

// set tries Set once. It fails with store.ErrChanged if another process has changed the tenant since it was read.
func (t *Tenants) set(ctx context.Context, name string, changes []Change) error {
	_, changed, err := t.changed(ctx, name, changes)
	if err == nil {
		_, err = t.docs.Replace(ctx, changed)
	}
	return err
}

// Preview returns a tenant now, and with changes that are all in force. It stores nothing.
func (t *Tenants) Preview(ctx context.Context, name string, changes ...Change) (now, then Tenant, err error) {
	was, will, err := t.changed(ctx, name, changes)
	if err != nil {
		return now, then, fmt.Errorf("change tenant %s: %w", name, err)
	}
	epochs, err := t.docs.List(ctx, KindEpoch)
	if err != nil {
		return now, then, fmt.Errorf("list tenants: %w", err)
	}
	for _, x := range []struct {
		of store.Document
		to *Tenant
	}{{was, &now}, {will, &then}} {
		all, broken, err := Of([]store.Document{x.of}, epochs, nil)
		if err != nil {
			return now, then, err
		}
		if broken.Of(name) {
			return now, then, broken.First()
		}
		*x.to = all[name]
	}
	return now, then, nil
}

func (t *Tenants) changed(ctx context.Context, name string, changes []Change) (was, will store.Document, err error) {
	was, found, err := t.docs.Read(ctx, Kind, name)
	if err != nil {
		return was, will, err
	}
	if !found {
		return was, will, ErrNoTenant
	}
	body, err := changeBody(was, changes)
	if err != nil {
		return was, will, err
	}
	return was, store.Document{Kind: Kind, ID: name, Body: body, ETag: was.ETag}, nil
}
