package heatlog

import (
	"slices"
	"strings"

	"binnacle/internal/heat"
	"binnacle/sharding"
)

// deviceCounts is the RU of devices since they were last taken, by tenant. Its owner guards it.
type deviceCounts struct {
	tenants map[string]*tenantDevices
	named   int // devices in all
	buckets int // tenants with buckets
}

type tenantDevices struct {
	rus    map[string]float64
	rest   []float64
	others int
	total  float64
}

func (d *deviceCounts) add(tenant, device string, rus float64) {
	t := d.tenants[tenant]
	if t == nil {
		t = &tenantDevices{rus: map[string]float64{}}
		d.tenants[tenant] = t
	}
	t.total += rus
	if _, ok := t.rus[device]; ok {
		t.rus[device] += rus
		return
	}
	if d.named < maxDevices {
		d.named++
		t.rus[device] = rus
		return
	}
	if t.rest == nil {
		if d.buckets >= maxBuckets {
			return // its total counts, its name does not
		}
		d.buckets++
		t.rest = make([]float64, heat.Buckets)
	}
	// A device may be counted here more than once: how many others there are is an upper bound.
	t.rest[sharding.GroupOf(device, heat.Buckets)] += rus
	t.others++
}

// leastShare is the part of a process's RU from which on a tenant's devices are written: half of the percent from which
// on a tenant matters, as a process has more of some tenants than of others.
const leastShare = 0.005

// take returns the weights of tenants that matter, by tenant, and takes all out.
func (d *deviceCounts) take() (out []heat.Weights) {
	all := 0.0
	for _, t := range d.tenants {
		all += t.total
	}
	for name, t := range d.tenants {
		if t.total < leastShare*all || t.total == 0 {
			continue
		}
		w := heat.Weights{Tenant: name, Rest: t.rest, Others: t.others}
		for device, rus := range t.rus {
			w.Devices = append(w.Devices, heat.Weight{Device: device, RUs: rus})
		}
		out = append(out, w)
	}
	*d = deviceCounts{tenants: map[string]*tenantDevices{}}
	slices.SortFunc(out, func(a, b heat.Weights) int { return strings.Compare(a.Tenant, b.Tenant) })
	return out
}
