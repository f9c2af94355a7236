package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/text/duration"
	"binnacle/sharding"
)

// tenantOperator is what an operator does with tenants and their tokens, over the command line and over HTTP alike.
// Every change is an action of the operator's.
type tenantOperator struct {
	docs    store.Documents
	tenants *tenant.Tenants
	tokens  *tenant.Tokens
	actions *control.Actions
	log     *slog.Logger
	catalog store.Catalog      // for classes of retention by tag; nil: none
	chunks  store.HeaderReader // to count what goes; nil: it is not counted
	// mayDecide fails while this machine's clock is wrong; nil: it never does.
	mayDecide func(ctx context.Context) error
}

func newTenantOperator(docs store.Documents, who string, log *slog.Logger) tenantOperator {
	return tenantOperator{docs, tenant.NewTenants(docs), tenant.NewTokens(docs),
		control.NewActions(docs, who, log, time.Now), log, nil, nil, nil}
}

func (o tenantOperator) on(client *cosmos.Client) tenantOperator {
	o.catalog, o.chunks = client.Catalog(), client.Chunks().At(cosmos.Priority{Low: true})
	o.mayDecide = client.CheckClock
	return o
}

// directory returns a copy of the tenants, which has read nothing yet.
func (o tenantOperator) directory() *control.Directory {
	return control.NewDirectory(control.DirectoryConfig{Documents: o.docs, Logger: o.log})
}

var errRegistered = errors.New("it is registered already; tenant set changes it")

func (o tenantOperator) find(ctx context.Context, name string) (tenant.Tenant, error) {
	all, err := o.tenants.List(ctx)
	if err != nil {
		return tenant.Tenant{}, err
	}
	var names []string
	for _, t := range all {
		if names = append(names, t.Name); t.Name == name {
			return t.At(time.Now()), nil
		}
	}
	return tenant.Tenant{}, noTenant(name, names)
}

func (o tenantOperator) list(ctx context.Context, name string) ([]tenant.Tenant, error) {
	if name == "" {
		all, err := o.tenants.List(ctx)
		for i := range all {
			all[i] = all[i].At(time.Now())
		}
		return all, err
	}
	t, err := o.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return []tenant.Tenant{t}, nil
}

func (o tenantOperator) infos(ctx context.Context, name string) ([]TenantInfo, error) {
	all, err := o.list(ctx, name)
	infos, today := []TenantInfo{}, telemetry.DayOf(time.Now().UnixMilli())
	for _, t := range all {
		infos = append(infos, tenantInfo(t, today))
	}
	return infos, err
}

// outcome returns a tenant as it is after a change, with what that hides; of a dry run, what it would hide.
func (o tenantOperator) outcome(ctx context.Context, name string, hides []string, changed error) (any, error) {
	if errors.Is(changed, errDryRun) {
		return map[string]any{"hides": append([]string{}, hides...)}, nil
	}
	if changed != nil {
		return nil, changed
	}
	infos, err := o.infos(ctx, name)
	if err != nil {
		return nil, err
	}
	infos[0].Hides = hides
	return infos[0], nil
}

// add registers a tenant with a retention, 0 to keep readings without end. An ingester may do so at the same time:
// then add fails, and the ingester's document stays.
func (o tenantOperator) add(ctx context.Context, name string, retention time.Duration) error {
	if err := telemetry.CheckTenant(name); err != nil {
		return unfitError{err}
	}
	if retention < 0 || retention%time.Second != 0 {
		return unfit("a retention of %s is not a number of seconds", retention)
	}
	directory := control.NewDirectory(control.DirectoryConfig{Documents: o.docs, Logger: o.log, Retention: retention})
	v, err := directory.Refresh(ctx)
	if err != nil {
		return err
	}
	if _, known := v.Tenant(name); known {
		return fmt.Errorf("tenant %s: %w", name, errRegistered)
	}
	placement, err := sharding.NewPlacement(name, []sharding.Epoch{sharding.FirstEpoch(name, sharding.DefaultSlots)})
	if err != nil {
		return err
	}
	added := tenant.Tenant{Name: name, Retention: retention, Placement: placement}
	if err := checkContainers(v, append(v.Tenants(), added)); err != nil && retention > 0 {
		return err
	}
	a := control.Action{Verb: "tenant add", Tenant: name,
		Detail: map[string]string{"retention": orElse(retention, "forever")}}
	return o.actions.Do(ctx, a, func(*control.Action) error {
		v, err := directory.Register(ctx, name)
		if err != nil {
			return err
		}
		if t, _ := v.Tenant(name); t.Retention != retention {
			return fmt.Errorf("tenant %s: %w: an ingester was first, with the retention %s", name, errRegistered,
				t.RetentionText())
		}
		return nil
	})
}

// orElse formats a duration; 0 is none.
func orElse(d time.Duration, none string) string {
	if d == 0 {
		return none
	}
	return duration.String(d)
}

// consent returns an error if no one confirms that something goes for good, and errDryRun if that was only shown.
type consent func(goes []string) error

// errDryRun says that the command listed what would go, and changed nothing.
var errDryRun = errors.New("nothing was changed: it was a dry run")

// set changes settings of a tenant. It returns what a shorter retention hides.
func (o tenantOperator) set(ctx context.Context, name string, changes []tenant.Change, may consent,
) (hides []string, err error) {
	detail := map[string]string{}
	for _, c := range changes {
		what, value, _ := strings.Cut(c.String(), " ")
		detail[what] = value
	}
	t, err := o.find(ctx, name)
	if err != nil {
		return nil, err
	}
	if hides, err = checkRetention(ctx, o.docs, name, detail["retention"]); err != nil {
		return nil, err
	}
	if changes, err = o.withTagged(ctx, t, detail["retention"], changes); err != nil {
		return nil, err
	}
	if len(hides) > 0 {
		v, err := o.vanishing(ctx, name, time.Now(), changes...)
		if err != nil {
			return nil, err
		}
		hides = append(hides, v.sentences()...)
	}
	if err := may(hides); err != nil {
		return hides, err
	}
	return hides, o.change(ctx, control.Action{Verb: "tenant set", Tenant: name, Detail: detail}, changes...)
}

// withTagged returns changes with the devices of a retention by tag, from the catalog.
func (o tenantOperator) withTagged(
	ctx context.Context, t tenant.Tenant, retention string, changes []tenant.Change,
) ([]tenant.Change, error) {
	if retention == "" {
		return changes, nil
	}
	tags, err := tenant.RetentionTags(retention)
	if err != nil || len(tags) == 0 {
		return changes, err
	}
	found, err := o.tagged(ctx, t, tags)
	if err != nil {
		return nil, err
	}
	change, err := tenant.RetentionChange(retention, time.Now, found)
	if err != nil {
		return nil, unfitError{err}
	}
	out := slices.DeleteFunc(slices.Clone(changes), func(c tenant.Change) bool {
		what, _, _ := strings.Cut(c.String(), " ")
		return what == "retention"
	})
	return append(out, change), nil
}

// tagged returns the devices that have tags, as the catalog has it.
func (o tenantOperator) tagged(ctx context.Context, t tenant.Tenant, tags []tenant.RetentionTag,
) (tenant.Tagged, error) {
	if len(tags) == 0 {
		return nil, nil
	}
	cache := catalogcache.New(catalogcache.Config{Catalog: o.catalog})
	return provision.TaggedDevices(ctx, cache, t, tags)
}

// check fails with ErrNoTenant if there is no tenant of a name.
func (o tenantOperator) check(ctx context.Context, name string) error {
	_, found, err := o.docs.Read(ctx, tenant.Kind, name)
	if err != nil || found {
		return err
	}
	_, err = o.infos(ctx, name)
	return err
}

func (o tenantOperator) change(ctx context.Context, a control.Action, changes ...tenant.Change) error {
	if err := o.checkClock(ctx); err != nil {
		return fmt.Errorf("%s %s: %w", a.Verb, a.Tenant, err)
	}
	return o.actions.Do(ctx, a, func(*control.Action) error { return o.tenants.Set(ctx, a.Tenant, changes...) })
}

// checkClock fails while nothing may be decided that cannot be undone.
func (o tenantOperator) checkClock(ctx context.Context) error {
	if o.mayDecide == nil {
		return nil
	}
	return o.mayDecide(ctx)
}

func (o tenantOperator) suspend(ctx context.Context, name, reason string) error {
	change, err := tenant.SuspendChange(reason, time.Now())
	if err != nil {
		return unfitError{err}
	}
	a := control.Action{Verb: "tenant suspend", Tenant: name, Detail: map[string]string{"reason": reason}}
	return o.change(ctx, a, change)
}

func (o tenantOperator) resume(ctx context.Context, name string) error {
	return o.change(ctx, control.Action{Verb: "tenant resume", Tenant: name}, tenant.ResumeChange())
}

// checkRetention returns what a shorter retention hides, and an error if a longer one would need more containers than
// an account may have.
func checkRetention(
	ctx context.Context, docs store.Documents, name, retention string,
) (hides []string, err error) {
	if retention == "" {
		return nil, nil
	}
	v, err := control.NewDirectory(control.DirectoryConfig{Documents: docs}).Refresh(ctx)
	if err != nil {
		return nil, err
	}
	tenants := v.Tenants()
	i := slices.IndexFunc(tenants, func(t tenant.Tenant) bool { return t.Name == name })
	if i < 0 {
		return nil, nil // the change says so
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
	return hides, checkContainers(v, tenants)
}

// checkContainers fails if tenants would need more containers than an account may have.
func checkContainers(v *control.Snapshot, tenants []tenant.Tenant) error {
	policy := provision.DefaultPolicy()
	policy.RollupsRUs = RollupsRUs // containers of rollups count, whatever their throughput is
	return policy.CheckPeriod(v.Period().Period, tenants, 1+len(store.BaseContainers()))
}

// RollupsRUs is the throughput of the containers of rollups in one process with everything else.
const RollupsRUs = 4000
