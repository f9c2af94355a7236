package worker

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// overrun is what has gone over one limit of a tenant.
type overrun struct {
	delayed, refused int64
	last             int64 // when, ms
	culprits         culprits
}

// culprits has those that come most often, in constant room (the Misra-Gries summary): whoever makes up more than a
// part of mostCulprits+1 of all is among them, with a count that is too low by that part at most.
type culprits []Culprit

// Culprit is a device, and how many of its readings went over a limit, at least.
type Culprit struct {
	Device   string `json:"device"`
	Readings int64  `json:"readings"`
}

const mostCulprits = 8

func (c *culprits) add(device string) {
	all := *c
	for i := range all {
		if all[i].Device == device {
			all[i].Readings++
			return
		}
	}
	if len(all) < mostCulprits {
		*c = append(all, Culprit{strings.Clone(device), 1})
		return
	}
	for i := range all {
		all[i].Readings--
	}
	*c = slices.DeleteFunc(all, func(x Culprit) bool { return x.Readings == 0 })
}

// over takes note of a reading that has gone over a limit. The caller holds the lock.
func (t *tenant) over(of limitName, device string, delayed bool, now time.Time) {
	if t.overruns == nil {
		t.overruns = map[limitName]*overrun{}
	}
	o := t.overruns[of]
	if o == nil {
		o = &overrun{}
		t.overruns[of] = o
	}
	o.last = now.UnixMilli()
	if delayed {
		o.delayed++
	} else {
		o.refused++
	}
	o.culprits.add(device)
}

// Overrun is what has gone over one limit of a tenant since the partition came here.
type Overrun struct {
	Tenant   string    `json:"tenant"`
	Limit    string    `json:"limit"`
	Delayed  int64     `json:"delayed_readings"`
	Refused  int64     `json:"refused_readings"`
	Last     time.Time `json:"last"`
	Culprits []Culprit `json:"culprits"` // those with the most, the first one first
}

// Overruns is what has gone over limits, of one tenant or, with "", of all. It may be called by anyone at any time.
func (w *Worker) Overruns(tenant string) (out []Overrun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, t := range w.tenants {
		if tenant != "" && tenant != name {
			continue
		}
		for of, o := range t.overruns {
			x := Overrun{Tenant: name, Limit: string(of), Delayed: o.delayed, Refused: o.refused,
				Last: time.UnixMilli(o.last).UTC(), Culprits: slices.Clone(o.culprits)}
			slices.SortFunc(x.Culprits, func(a, b Culprit) int {
				return cmp.Or(cmp.Compare(b.Readings, a.Readings), strings.Compare(a.Device, b.Device))
			})
			out = append(out, x)
		}
	}
	return out
}
