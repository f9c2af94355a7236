package provision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/tenant"
)

// TagKeeper keeps which devices are in classes of retention by tag, as the catalog has their tags. It may die anywhere,
// and two of them do no harm.
type TagKeeper struct {
	Snapshot func(ctx context.Context) (*control.Snapshot, error) // read a moment ago
	Catalogs *catalogcache.Cache
	Tenants  *tenant.Tenants
	Now      func() time.Time
	Every    time.Duration // between two rounds
	Logger   *slog.Logger

	// warned holds, by tenant, the devices that wait for an operator; Round owns it.
	warned map[string]string
}

// Run does a round now and then, until the context ends; then it returns nil.
func (k *TagKeeper) Run(ctx context.Context) error {
	loop := retry.Loop{Spends: true, Every: k.Every, Log: k.Logger, Failing: "devices of classes by tag are not stored",
		Over: "devices of classes by tag are stored again"}
	return loop.Run(ctx, k.Round)
}

// Round stores what has changed since the last one. An error is about some tenants: the others were done.
func (k *TagKeeper) Round(ctx context.Context) error {
	v, err := k.Snapshot(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, t := range v.Tenants() {
		if len(t.RetentionTags()) == 0 {
			continue
		}
		if err := k.keep(ctx, t); err != nil {
			faults = append(faults, fmt.Errorf("tenant %s: %w", t.Name, err))
		}
	}
	return errors.Join(faults...)
}

func (k *TagKeeper) keep(ctx context.Context, t tenant.Tenant) error {
	found, err := TaggedDevices(ctx, k.Catalogs, t, t.RetentionTags())
	if err != nil {
		return err
	}
	k.warn(ctx, t, found)
	change, differs := t.TaggedChange(found, k.Now)
	if !differs {
		return nil
	}
	k.Logger.InfoContext(ctx, "devices have come to classes by tag or left them", "tenant", t.Name)
	return k.Tenants.Set(ctx, t.Name, change)
}

// warn says, once for each such devices, that tags would have devices kept for less: that waits for an operator.
func (k *TagKeeper) warn(ctx context.Context, t tenant.Tenant, found tenant.Tagged) {
	said := WaitingDevices(t.Retagged(found))
	if said != "" && said != k.warned[t.Name] {
		k.Logger.WarnContext(ctx, said+": they stay in their class until tenant retention confirm", "tenant", t.Name)
	}
	if k.warned == nil {
		k.warned = map[string]string{}
	}
	k.warned[t.Name] = said
}

// WaitingDevices says which devices would be kept for less by their tags, "" for none.
func WaitingDevices(all []tenant.Retagged) string {
	var names []string
	for _, r := range all {
		if r.Shortens() {
			names = append(names, r.Device)
		}
	}
	const most = 10
	switch n := len(names); {
	case n == 0:
		return ""
	case n == 1:
		return "1 device would be kept for less by its tags: " + names[0]
	case n > most:
		return fmt.Sprintf("%d devices would be kept for less by their tags: %s, ...", n, strings.Join(names[:most], ", "))
	default:
		return fmt.Sprintf("%d devices would be kept for less by their tags: %s", n, strings.Join(names, ", "))
	}
}

// TaggedDevices returns the devices of a tenant that have tags now. Those that had one and are not in the catalog have
// it still: a catalog that was lost takes no device out of its class.
func TaggedDevices(
	ctx context.Context, of *catalogcache.Cache, t tenant.Tenant, tags []tenant.RetentionTag,
) (tenant.Tagged, error) {
	held, err := of.Get(ctx, t.Name, time.Now())
	if err != nil {
		return nil, err
	}
	out := tenant.Tagged{}
	held.Use(func(x *catalog.Index) {
		for _, g := range tags {
			tagged := x.Select([]catalog.Matcher{{Of: catalog.OfTag, Name: g.Name, Values: []string{g.Value},
				Match: func(value string) bool { return value == g.Value }}}, 0, x.Blocks())
			ids := tagged.Devices()
			for _, id := range t.TaggedWith(g) {
				if _, isKnown := x.Entry(id); !isKnown {
					ids = append(ids, id)
				}
			}
			out[g] = ids
		}
	})
	return out, nil
}
