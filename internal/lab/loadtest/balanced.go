package loadtest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"binnacle/internal/control"
	"binnacle/sharding"
	"binnacle/sharding/balance"
)

// decide has the balancer decide from what was written into a container. Provision calls the same function each
// evening.
func (a *account) decide(ctx context.Context, in balance.Input, container string,
	seen map[sharding.Key]*stored) (d balance.Decision, err error) {
	if in.Ranges, err = a.client.RangesOf(ctx, container); err != nil {
		return balance.Decision{}, err
	}
	dir := a.directory()
	snapshot, err := dir.Refresh(ctx)
	if err != nil {
		return balance.Decision{}, err
	}
	byShard := map[string]int{}
	index := map[string]int{}
	for i, t := range snapshot.Tenants() {
		in.Tenants, index[t.Name] = append(in.Tenants, balance.Tenant{Name: t.Name, Placement: t.Placement}), i
	}
	order := func(x, y sharding.Key) int {
		return strings.Compare(x.TenantShard+"/"+x.Device, y.TenantShard+"/"+y.Device)
	}
	for _, key := range slices.SortedFunc(maps.Keys(seen), order) {
		name, _, _ := strings.Cut(key.TenantShard, "~")
		t, rus := &in.Tenants[index[name]], seen[key].rus
		n, known := byShard[key.TenantShard]
		if !known {
			n, byShard[key.TenantShard] = len(t.Keys), len(t.Keys)
			t.Keys = append(t.Keys, balance.Key{Shard: key.TenantShard})
		}
		t.Keys[n].Writes += rus
		t.Devices = append(t.Devices, balance.Device{Name: key.Device, RUs: rus})
	}
	return balance.Decide(in), nil
}

// directory returns a copy of the tenants of the account, which has read nothing yet.
func (a *account) directory() *control.Directory {
	return control.NewDirectory(control.DirectoryConfig{Documents: a.client.Documents(), Now: a.clock.now,
		Logger: slog.New(slog.DiscardHandler)})
}

// place registers the tenants of a decision with their epochs. It is the evening before the fleet reports.
func (a *account) place(ctx context.Context, p pass) error {
	dir := a.directory()
	for _, c := range p.placed {
		if _, err := dir.Register(ctx, c.Tenant); err != nil {
			return err
		}
		if err := dir.AddEpoch(ctx, c.Tenant, c.Epoch); err != nil {
			return fmt.Errorf("epoch of the balancer: %w", err)
		}
	}
	a.clock.reach(p.cfg.starts().Add(-warm))
	return nil
}

// Keys is how many first-level keys a tenant has.
type Keys struct {
	Tenant string `json:"tenant"`
	// Share is the tenant's share of the container's RU.
	Share  float64 `json:"ru_share"`
	Before int     `json:"keys_before"`
	After  int     `json:"keys_after"`
	// Spread counts the devices with several keys now, over all tenants.
	Spread int `json:"devices_spread,omitempty"`
}

// largest returns the keys before and after a decision for the tenant with most of the load, among the tenants
// that the decision changes.
func largest(changes []sharding.EpochChange) *Keys {
	if len(changes) == 0 {
		return nil
	}
	c := slices.MaxFunc(changes, func(x, y sharding.EpochChange) int {
		return int(1e6*x.Share) - int(1e6*y.Share)
	})
	k := &Keys{c.Tenant, round(c.Share), c.KeysBefore, c.KeysAfter, 0}
	for _, c := range changes {
		k.Spread += c.Devices
	}
	return k
}
