package xray

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// fleet is which devices report how much, by the sample. Amounts are of the whole container.
type fleet struct {
	devicePath, tenantPath string // "" for no tenant
	loads                  []load
	timed                  bool // keys contain the day on which documents are written
	amount
	// days is the time from the oldest to the newest document.
	days float64
}

// amount is documents, what they were charged to write, and their bytes.
type amount struct{ docs, rus, bytes float64 }

func (a *amount) add(b amount) { a.docs, a.rus, a.bytes = a.docs+b.docs, a.rus+b.rus, a.bytes+b.bytes }

// load is what one device has stored under one key, times taken out of it.
type load struct {
	entity
	key []component
	of  int // range where it was found
	amount
}

// entity is a device of a tenant; of tenant "" where there are none.
type entity struct{ tenant, device string }

// Names by which properties are found, in lower case without underscores; the first one that is there counts.
var (
	deviceNames = []string{"deviceid", "device", "sensorid", "sensor", "vehicleid", "vehicle", "machineid", "machine",
		"meterid", "meter", "assetid", "asset", "thingid", "thing", "truckid", "truck", "gatewayid", "unitid"}
	tenantNames = []string{"tenantid", "tenant", "customerid", "customer", "organizationid", "organisationid", "orgid",
		"org", "accountid", "account", "companyid", "company", "fleetid"}
)

func (s *sampler) fleet() (fleet, error) {
	var f fleet
	var err error
	if f.devicePath, err = s.property(s.cfg.DevicePath, "--device-path", deviceNames); err != nil {
		return f, err
	}
	if f.devicePath == "" {
		if f.devicePath = s.mostDistinct(); f.devicePath == "" {
			return f, fmt.Errorf("no property of container %s is known to name a device: say which by --device-path",
				s.cfg.Container)
		}
	}
	if f.tenantPath, err = s.property(s.cfg.TenantPath, "--tenant-path", tenantNames); err != nil {
		return f, err
	}
	sums, timed := map[string]*load{}, 0.0
	for _, d := range s.docs {
		at := time.Unix(d.at, 0).UTC()
		l := load{entity: entity{device: d.names[f.devicePath]}, of: d.of}
		if f.tenantPath != "" {
			l.tenant = d.names[f.tenantPath]
		}
		id := strings.Builder{}
		fmt.Fprintf(&id, "%d\x00%s\x00%s", d.of, l.tenant, l.device)
		marked := false
		for _, c := range d.key {
			c = c.marked(at)
			marked = marked || c.timed()
			l.key = append(l.key, c)
			fmt.Fprintf(&id, "\x00%d%s", c.kind, c.text)
		}
		if marked {
			timed += d.weight
		}
		sum := sums[id.String()]
		if sum == nil {
			sum = &l
			sums[id.String()] = sum
		}
		a := amount{d.weight, d.weight * s.cfg.Model.Write(d.bytes, d.units), d.weight * float64(d.bytes)}
		sum.add(a)
		f.add(a)
	}
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		f.loads = append(f.loads, *sums[id])
	}
	from, to := s.span()
	f.timed, f.days = timed > f.docs/2, max(to.Sub(from).Hours()/24, 1.0/24)
	return f, nil
}

// property returns the path that a flag names, or else the first of the known names that nearly all documents have.
func (s *sampler) property(path, flag string, known []string) (string, error) {
	if path != "" {
		if s.having(path) == 0 {
			return "", fmt.Errorf("%s %s: no document of the sample has a string or a number there", flag, path)
		}
		return path, nil
	}
	found := map[string]string{}
	for _, d := range s.docs {
		for p := range d.names {
			found[strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(p, "/")), "_", "")] = p
		}
	}
	for _, name := range known {
		if p, ok := found[name]; ok && s.having(p)*10 >= len(s.docs)*9 {
			return p, nil
		}
	}
	return "", nil
}

func (s *sampler) having(path string) (n int) {
	for _, d := range s.docs {
		if d.names[path] != "" {
			n++
		}
	}
	return n
}

// mostDistinct returns the path of the partition key with the most values, other than /id.
func (s *sampler) mostDistinct() (best string) {
	most := 0
	for _, path := range s.about.Key {
		values := map[string]bool{}
		for _, d := range s.docs {
			values[d.names[path]] = true
		}
		if len(values) > most && path != "/id" && s.having(path)*10 >= len(s.docs)*9 {
			best, most = path, len(values)
		}
	}
	return best
}

// entities returns the devices with their amounts, the largest first.
func (f fleet) entities() []load { return summed(f.loads, func(e entity) entity { return e }) }

// tenants returns the amounts of tenants, the largest first.
func tenants(entities []load) []load {
	return summed(entities, func(e entity) entity { return entity{tenant: e.tenant} })
}

// summed adds up the loads of devices by the entity that of returns for each, the largest first.
func summed(loads []load, of func(entity) entity) (out []load) {
	sums := map[entity]*load{}
	for _, l := range loads {
		e := of(l.entity)
		if sums[e] == nil {
			sums[e] = &load{entity: e}
		}
		sums[e].add(l.amount)
	}
	for _, l := range sums {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b load) int {
		return cmp.Or(cmp.Compare(b.rus, a.rus), cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.device, b.device))
	})
	return out
}
