package admit

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// excess is what has gone over one limit of a tenant.
type excess struct {
	delayed, refused int64
	last             int64 // when, ms
	topDevices       topDevices
}

// topDevices counts the devices with the most readings in constant space, by the Misra-Gries summary. The list has each
// device with more than one part in maxTopDevices+1 of all readings. A count is too low by that part at most.
type topDevices []TopDevice

// TopDevice is a device, and how many of its readings went over a limit, at least.
type TopDevice struct {
	Device   string `json:"device"`
	Readings int64  `json:"readings"`
}

const maxTopDevices = 8

func (c *topDevices) add(device string) {
	all := *c
	for i := range all {
		if all[i].Device == device {
			all[i].Readings++
			return
		}
	}
	if len(all) < maxTopDevices {
		*c = append(all, TopDevice{strings.Clone(device), 1})
		return
	}
	for i := range all {
		all[i].Readings--
	}
	*c = slices.DeleteFunc(all, func(x TopDevice) bool { return x.Readings == 0 })
}

// countExcess records a reading over a limit, and returns where the caller counts it. The caller holds the lock.
func (t *tenantState) countExcess(limit limitName, device string, now time.Time) *excess {
	if t.excesses == nil {
		t.excesses = map[limitName]*excess{}
	}
	o := t.excesses[limit]
	if o == nil {
		o = &excess{}
		t.excesses[limit] = o
	}
	o.last = now.UnixMilli()
	o.topDevices.add(device)
	return o
}

// Excess is what has gone over one limit of a tenant since the partition came here.
type Excess struct {
	Tenant     string      `json:"tenant"`
	Limit      string      `json:"limit"`
	Delayed    int64       `json:"delayed_readings"`
	Refused    int64       `json:"refused_readings"`
	Last       time.Time   `json:"last"`
	TopDevices []TopDevice `json:"culprits"` // the devices with the most readings over the limit, the first one first
}

// Excesses returns what has gone over limits, of one tenant or, with "", of all. Anyone may call it at any time.
func (l *Limits) Excesses(tenant string) (out []Excess) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, t := range l.tenants.all {
		if tenant != "" && tenant != name {
			continue
		}
		for limit, o := range t.excesses {
			x := Excess{Tenant: name, Limit: string(limit), Delayed: o.delayed, Refused: o.refused,
				Last: time.UnixMilli(o.last).UTC(), TopDevices: slices.Clone(o.topDevices)}
			slices.SortFunc(x.TopDevices, func(a, b TopDevice) int {
				return cmp.Or(cmp.Compare(b.Readings, a.Readings), strings.Compare(a.Device, b.Device))
			})
			out = append(out, x)
		}
	}
	return out
}
