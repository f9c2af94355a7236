package xray

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/sharding/epk"
)

// predictor predicts what layouts do with the load of a fleet.
type predictor struct {
	*sampler
	f fleet
	// entities lists the loads by device.
	entities []load
	tenants  []load
	typical  load // the device in the middle
	days     []time.Time
}

func newPredictor(s *sampler, f fleet) *predictor {
	j := &predictor{sampler: s, f: f, entities: f.entities()}
	j.tenants = tenants(j.entities)
	j.typical = j.entities[len(j.entities)/2]
	_, last := s.span()
	first := last.Truncate(24 * time.Hour)
	for i := range s.cfg.Days {
		j.days = append(j.days, first.AddDate(0, 0, i+1))
	}
	return j
}

// mostHourlyDays bounds for how many days keys with the hour are placed.
const mostHourlyDays = 7

// predict predicts a layout, in a new container with as many physical partitions.
func (j *predictor) predict(s scheme) Layout {
	place := evenly(len(j.ranges))
	days := j.days
	switch {
	case s.hourly:
		days = days[:min(len(days), mostHourlyDays)]
	case !s.daily:
		days = days[:1]
	}
	l := Layout{Name: s.Name, Key: s.Key}
	for i, day := range days {
		loads, keys := make([]float64, len(place)), map[string]float64{}
		for _, e := range j.entities {
			hours := 1
			if s.hourly {
				hours = 24
			}
			for h := range hours {
				key := s.key(e.entity, day.Add(time.Duration(h)*time.Hour))
				loads[place.of(key)] += e.rus / float64(hours)
				if i == 0 {
					keys[strings.Join(key, ", ")] += e.rus / float64(hours)
				}
			}
		}
		l.HottestOverMean += hottestOverMean(loads) / float64(len(days))
		if i == 0 {
			l.HottestKey, l.HottestShare = largest(keys)
			l.HottestShare /= j.f.rus
		}
	}
	l.FullInDays = j.full(l.HottestShare, s.hourly || s.daily, s.monthly)
	day := j.days[0]
	l.DeviceDay = j.readOf(place, reading{s, s.device(j.typical.entity, day), j.isTypical})
	var prefixes [][]string
	if s.tenant != nil {
		prefixes = s.tenant(j.tenants[0].tenant, day)
	}
	l.TenantDay = j.readOf(place, reading{s, prefixes, j.isLargest})
	return j.priced(l)
}

// full returns in how many days the hottest key has as many bytes as the service allows; 0 for never.
func (j *predictor) full(share float64, timed, monthly bool) float64 {
	perDay := share * j.f.bytes / j.f.days / bytesOfGB
	days := keyGB / perDay
	if perDay == 0 || timed && days > 1 || monthly && days > monthDays {
		return 0
	}
	return days
}

// stored is the documents of one key of a day: where a reader looks for them, and whether it wants them.
type stored struct {
	visit  string
	of     int     // physical partition
	docs   float64 // a day
	wanted bool
}

// seeksOfRead is how many conditions a read has: a key, a device or tenant, and the day.
const seeksOfRead = 3

// charged sets the charge of a read. Documents that are found one after the other cost more where others were made
// between them: how many those are follows from the part that they have of their physical partition.
func (j *predictor) charged(out Read, all []stored) Read {
	held, wanted, of := make([]float64, len(j.ranges)), map[string]float64{}, map[string]int{}
	docs := 0.0
	for _, d := range all {
		held[d.of] += d.docs
		if d.wanted {
			wanted[d.visit] += d.docs
			of[d.visit] = d.of
			docs += d.docs
		}
	}
	apart := 0.0
	for visit, n := range wanted {
		apart += max(0, n*(1-n/held[of[visit]])-seeksOfRead)
	}
	visits := max(out.Keys, 1)
	if out.Keys == 0 {
		visits = out.Partitions
	}
	mean := j.f.bytes / j.f.docs / 1024
	m := j.cfg.Model
	none := m.Query(ru.QueryWork{})
	row := m.Query(ru.QueryWork{Docs: 1, ExtraKB: max(0, mean-1)}) - none
	scattered := m.Query(ru.QueryWork{Scattered: 1}) - none
	out.RUs = float64(visits)*m.Query(ru.QueryWork{Seeks: seeksOfRead}) + docs*row + apart*scattered
	return out
}

// reading is a read of one day: its keys and devices.
type reading struct {
	scheme scheme
	keys   [][]string // or first levels; nil: all
	wants  func(entity) bool
}

// readOf returns what a read takes: a query for each key, or one of all keys.
func (j *predictor) readOf(place placement, r reading) Read {
	var all []stored
	hours := 1
	if r.scheme.hourly {
		hours = 24
	}
	for _, e := range j.entities {
		for h := range hours {
			key := r.scheme.key(e.entity, j.days[0].Add(time.Duration(h)*time.Hour))
			d := stored{of: place.of(key), docs: e.docs / j.f.days / float64(hours), wanted: r.wants(e.entity)}
			if d.visit = strconv.Itoa(d.of); len(r.keys) > 0 {
				d.visit = strings.Join(key[:len(r.keys[0])], "\x00")
			}
			all = append(all, d)
		}
	}
	return j.charged(Read{Keys: len(r.keys), Partitions: place.touched(r.keys)}, all)
}

func (j *predictor) priced(l Layout) Layout {
	writes := j.f.rus / (j.f.days * 86400)
	l.NeedRUs = writes*l.HottestOverMean + j.cfg.DeviceReads*l.DeviceDay.RUs + j.cfg.TenantReads*l.TenantDay.RUs
	l.Dollars = dollars(l.NeedRUs)
	return l
}

// now judges the key that the container has, in the ranges that it has.
func (j *predictor) now(byRange []amount) Layout {
	l := Layout{Name: "as it is", Key: strings.Join(j.about.Key, ", ")}
	timed := j.f.timed && j.about.Version > 1
	if timed {
		l = j.timed(l)
	} else {
		loads := make([]float64, len(byRange))
		for i, a := range byRange {
			loads[i] = a.rus
		}
		l.HottestOverMean = hottestOverMean(loads)
		keys := map[string]float64{}
		for _, e := range j.f.loads {
			keys[spell(e.key)] += e.rus
		}
		l.HottestKey, l.HottestShare = largest(keys)
		l.HottestShare /= j.f.rus
	}
	l.FullInDays = j.full(l.HottestShare, timed, false)
	l.DeviceDay = j.readNow(j.isTypical, timed)
	l.TenantDay = j.readNow(j.isLargest, timed)
	return j.priced(l)
}

// mostKeys is how many full keys a reader asks one by one; for more it asks all physical partitions where they lie.
const mostKeys = 100

// readNow returns what a read takes under the container's key: a query for each of its keys, or one of all where there
// are many.
func (j *predictor) readNow(wants func(entity) bool, timed bool) Read {
	keys, ranges := map[string]bool{}, map[int]bool{}
	live := j.live()
	var all []stored
	for _, o := range j.f.loads {
		times := []time.Time{j.days[0]}
		if timed {
			times = j.timesOf(o, j.days[0])
		}
		for _, at := range times {
			d := stored{of: o.of, docs: o.docs / j.f.days / float64(len(times)), wanted: wants(o.entity)}
			key := o.at(at)
			if timed {
				d.of = live.at(hashOf(key))
			}
			d.visit = spell(key)
			if d.wanted {
				keys[d.visit], ranges[d.of] = true, true
			}
			all = append(all, d)
		}
	}
	out := Read{Keys: len(keys), Partitions: len(ranges)}
	if len(keys) > mostKeys {
		out = Read{Partitions: len(j.ranges)}
		for i := range all {
			all[i].visit = strconv.Itoa(all[i].of)
		}
	}
	return j.charged(out, all)
}

func (j *predictor) isTypical(e entity) bool { return e == j.typical.entity }

func (j *predictor) isLargest(e entity) bool { return e.tenant == j.tenants[0].tenant }

func (j *predictor) live() placement {
	live := make(placement, len(j.ranges))
	for i, r := range j.ranges {
		live[i] = r.Range
	}
	return live
}

// timesOf returns the times of a day at which a key that contains the time is another.
func (j *predictor) timesOf(o load, day time.Time) []time.Time {
	times := []time.Time{day}
	if slices.ContainsFunc(o.key, component.hourly) {
		for h := 1; h < 24; h++ {
			times = append(times, day.Add(time.Duration(h)*time.Hour))
		}
	}
	return times
}

// timed predicts a key that contains the time: every coming day has new keys.
func (j *predictor) timed(l Layout) Layout {
	live := j.live()
	days := j.days[:min(len(j.days), 2*mostHourlyDays)]
	for i, day := range days {
		loads, keys := make([]float64, len(live)), map[string]float64{}
		for _, o := range j.f.loads {
			times := j.timesOf(o, day)
			for _, at := range times {
				key := o.at(at)
				loads[live.at(hashOf(key))] += o.rus / float64(len(times))
				if i == 0 {
					keys[spell(key)] += o.rus / float64(len(times))
				}
			}
		}
		l.HottestOverMean += hottestOverMean(loads) / float64(len(days))
		if i == 0 {
			l.HottestKey, l.HottestShare = largest(keys)
			l.HottestShare /= j.f.rus
		}
	}
	return l
}

func (l load) at(at time.Time) []component {
	key := slices.Clone(l.key)
	for k := range key {
		key[k] = key[k].unmarked(at)
	}
	return key
}

func hashOf(key []component) string {
	var levels []epk.Component
	for _, c := range key {
		levels = append(levels, c.hashed())
	}
	return epk.MultiHash(levels...)
}

func spell(key []component) string {
	var parts []string
	for _, c := range key {
		parts = append(parts, c.spelled())
	}
	return strings.Join(parts, ", ")
}

// prefix returns the fullest value of the first level of a hierarchical key.
func (j *predictor) prefix() *PrefixShare {
	if !j.about.Hierarchical {
		return nil
	}
	values, ranges := map[string]float64{}, map[string]map[int]bool{}
	for _, o := range j.f.loads {
		v := o.key[0].spelled()
		values[v] += o.rus
		if ranges[v] == nil {
			ranges[v] = map[int]bool{}
		}
		ranges[v][o.of] = true
	}
	v, share := largest(values)
	return &PrefixShare{Value: v, Share: share / j.f.rus, Partitions: len(slices.Collect(maps.Keys(ranges[v])))}
}
