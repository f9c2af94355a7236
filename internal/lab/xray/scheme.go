package xray

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"binnacle/sharding"
	"binnacle/sharding/epk"
)

// scheme is a way to key documents.
type scheme struct {
	Name string
	Key  string // paths, spelled with what they hold
	// hourly and daily report whether keys contain the time.
	hourly, daily bool
	// monthly reports whether keys start again each month, in a new container.
	monthly bool
	// key returns the levels of the key of what a device reports at a time.
	key func(e entity, at time.Time) []string
	// device returns the full keys that may hold a day of a device.
	device func(e entity, day time.Time) [][]string
	// tenant returns full keys or first levels that may hold a day of a tenant; nil: any key may.
	tenant func(tenant string, day time.Time) [][]string
}

// suffixes are how many values a hashed suffix has, in the guidance.
var suffixes = []int{10, 20, 100}

// schemes returns the alternatives of the guidance for a container of n physical partitions.
func schemes(f fleet, n int) []scheme {
	all := []scheme{byDate(), byDevice(), byDeviceAndHour()}
	for _, s := range suffixes {
		all = append(all, dateWithSuffix(s))
	}
	if f.tenantPath == "" {
		all = append(all, hierarchical("device, date", func(e entity, at time.Time) (string, string) {
			return e.device, at.Format(time.DateOnly)
		}, nil))
	} else {
		all = append(all, hierarchical("tenant, device", func(e entity, _ time.Time) (string, string) {
			return e.tenant, e.device
		}, func(tenant string, _ time.Time) [][]string { return [][]string{{tenant}} }))
		for _, s := range suffixes {
			all = append(all, tenantWithSuffix(s))
		}
	}
	return append(all, slots(f, n))
}

// once returns the device function of a scheme under which a day of a device has one key.
func once(key func(e entity, at time.Time) []string) func(entity, time.Time) [][]string {
	return func(e entity, day time.Time) [][]string { return [][]string{key(e, day)} }
}

func byDate() scheme {
	key := func(_ entity, at time.Time) []string { return []string{at.Format(time.DateOnly)} }
	return scheme{Name: "date", Key: "/date", daily: true, key: key, device: once(key),
		tenant: func(_ string, day time.Time) [][]string { return [][]string{key(entity{}, day)} }}
}

func byDevice() scheme {
	key := func(e entity, _ time.Time) []string { return []string{e.device} }
	return scheme{Name: "device", Key: "/device", key: key, device: once(key)}
}

func byDeviceAndHour() scheme {
	key := func(e entity, at time.Time) []string { return []string{e.device + "|" + at.Format("2006-01-02T15")} }
	return scheme{Name: "device and hour", Key: "/device|hour", hourly: true, key: key,
		device: func(e entity, day time.Time) (out [][]string) {
			for h := range 24 {
				out = append(out, key(e, day.Add(time.Duration(h)*time.Hour)))
			}
			return out
		}}
}

func suffixOf(device string, n int) string {
	_, low := epk.Sum(epk.String(device))
	return strconv.FormatUint(low%uint64(n), 10)
}

func dateWithSuffix(n int) scheme {
	key := func(e entity, at time.Time) []string {
		return []string{at.Format(time.DateOnly) + "~" + suffixOf(e.device, n)}
	}
	return scheme{Name: fmt.Sprintf("date, hashed suffix of %d", n), Key: "/date~suffix", daily: true, key: key,
		device: once(key),
		tenant: func(_ string, day time.Time) (out [][]string) {
			for i := range n {
				out = append(out, []string{day.Format(time.DateOnly) + "~" + strconv.Itoa(i)})
			}
			return out
		}}
}

func hierarchical(name string, levels func(e entity, at time.Time) (string, string),
	tenant func(string, time.Time) [][]string) scheme {
	key := func(e entity, at time.Time) []string {
		first, second := levels(e, at)
		return []string{first, second}
	}
	return scheme{Name: "hierarchical: " + name, Key: "/" + strings.ReplaceAll(name, ", ", ", /"), key: key,
		device: once(key), tenant: tenant, daily: tenant == nil}
}

func tenantWithSuffix(n int) scheme {
	key := func(e entity, _ time.Time) []string {
		return []string{e.tenant + "~" + suffixOf(e.device, n), e.device}
	}
	return scheme{Name: fmt.Sprintf("tenant with hashed suffix of %d, device", n), Key: "/tenant~suffix, /device",
		key: key, device: once(key),
		tenant: func(tenant string, _ time.Time) (out [][]string) {
			for i := range n {
				out = append(out, []string{tenant + "~" + strconv.Itoa(i)})
			}
			return out
		}}
}

// smallTenant is the share of the load below which a tenant keeps the slots that it is created with.
const smallTenant = 0.01

// slots returns Binnacle's placement: a slot for each physical partition for tenants that matter.
func slots(f fleet, n int) scheme {
	entities := f.entities()
	shards := map[string][]string{}
	for _, t := range tenants(entities) {
		k := max(n, sharding.DefaultSlots)
		if t.rus < smallTenant*f.rus {
			k = sharding.DefaultSlots
		}
		k = min(k, sharding.Slots)
		name := cmp.Or(t.tenant, "all")
		for _, slot := range sharding.Spread(name, k) {
			shards[t.tenant] = append(shards[t.tenant], sharding.Shard(name, slot))
		}
	}
	key := func(e entity, _ time.Time) []string {
		own := shards[e.tenant]
		_, low := epk.Sum(epk.String(e.device))
		return []string{own[low%uint64(len(own))], e.device}
	}
	return scheme{Name: fmt.Sprintf("%d slots", n), Key: "/tenant~slot, /device", monthly: true, key: key,
		device: once(key), tenant: func(tenant string, _ time.Time) (out [][]string) {
			for _, s := range shards[tenant] {
				out = append(out, []string{s})
			}
			return out
		}}
}
