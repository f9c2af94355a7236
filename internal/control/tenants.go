package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrNoTenant says that a tenant is not registered.
var ErrNoTenant = errors.New("there is no such tenant")

// Tenants lists tenants and changes what operators may change about them. It holds no state and is safe for any number
// of callers.
type Tenants struct{ docs Documents }

// NewTenants makes Tenants over the control documents.
func NewTenants(docs Documents) *Tenants { return &Tenants{docs} }

// List returns all tenants, by name.
func (t *Tenants) List(ctx context.Context) ([]Tenant, error) {
	docs, err := t.docs.List(ctx, KindTenant)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	epochs, err := t.docs.List(ctx, KindEpoch)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	byName, broken, err := tenantsOf(docs, epochs, nil)
	if err := cmp.Or(err, broken.first()); err != nil {
		return nil, err
	}
	out := make([]Tenant, 0, len(docs))
	for _, d := range docs {
		out = append(out, byName[d.ID])
	}
	slices.SortFunc(out, func(a, b Tenant) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// LookbackChange sets how old a sample PromQL takes for a tenant's current one, in whole seconds; 0 for what the
// service is set to.
func LookbackChange(lookback time.Duration) (Change, error) {
	if lookback < 0 || lookback%time.Second != 0 {
		return Change{}, fmt.Errorf("a lookback of %s is not a number of seconds", lookback)
	}
	c := Change{path: []string{"lookbackSeconds"}, named: "lookback"}
	if lookback > 0 {
		c.value = int64(lookback / time.Second)
	}
	return c, nil
}

// Set changes what is stored about a tenant, all in one write. Roles know it when they have read the tenants again.
// Properties that this version does not know stay as they are. It fails with ErrNoTenant if there is no such tenant.
func (t *Tenants) Set(ctx context.Context, name string, changes ...Change) error {
	err := contend(ctx, func() error { return t.set(ctx, name, changes) })
	if err != nil {
		return fmt.Errorf("change tenant %s: %w", name, err)
	}
	return nil
}

// set tries Set once. It fails with ErrChanged if somebody else has changed the tenant meanwhile.
func (t *Tenants) set(ctx context.Context, name string, changes []Change) error {
	_, changed, err := t.changed(ctx, name, changes)
	if err == nil {
		_, err = t.docs.Replace(ctx, changed)
	}
	return err
}

// Preview returns a tenant as it is now, and as it would be with changes, of which all are in force. It stores nothing.
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
		of Document
		to *Tenant
	}{{was, &now}, {will, &then}} {
		all, broken, err := tenantsOf([]Document{x.of}, epochs, nil)
		if err != nil {
			return now, then, err
		}
		if broken.of(name) {
			return now, then, broken.first()
		}
		*x.to = all[name]
	}
	return now, then, nil
}

// changed returns the document of a tenant, and the one that it becomes by changes.
func (t *Tenants) changed(ctx context.Context, name string, changes []Change) (was, will Document, err error) {
	was, found, err := t.docs.Read(ctx, KindTenant, name)
	if err != nil {
		return was, will, err
	}
	if !found {
		return was, will, ErrNoTenant
	}
	var body map[string]any
	numbers := json.NewDecoder(strings.NewReader(string(was.Body)))
	numbers.UseNumber()
	if err := numbers.Decode(&body); err != nil {
		return was, will, fmt.Errorf("%s document %q: %w", was.Kind, was.ID, err)
	}
	for _, c := range changes {
		if c.update == nil {
			c.apply(body)
		} else if err := c.update(body); err != nil {
			return was, will, err
		}
	}
	will = newDocument(KindTenant, name, body)
	will.ETag = was.ETag
	return was, will, nil
}

// apply makes a change in the body of a tenant document, and takes out what is empty then.
func (c Change) apply(body map[string]any) {
	name := c.path[0]
	switch {
	case len(c.path) > 1:
		within, ok := body[name].(map[string]any)
		if !ok {
			within = map[string]any{}
		}
		Change{path: c.path[1:], value: c.value}.apply(within)
		if body[name] = within; len(within) == 0 {
			delete(body, name)
		}
	case c.value == nil:
		delete(body, name)
	default:
		body[name] = c.value
	}
}
