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

// keyLoad is what a device stores on a day under one key.
type keyLoad struct {
	entity
	key  []string
	of   int // physical partition
	docs float64
	rus  float64
}

// keyLoads returns the load of a day under a scheme, in ranges of a new container.
func (j *predictor) keyLoads(s scheme, place placement, day time.Time) (out []keyLoad) {
	times := timesOf(day, s.hourly)
	n := float64(len(times))
	for _, e := range j.entities {
		for _, at := range times {
			key := s.key(e.entity, at)
			out = append(out, keyLoad{e.entity, key, place.of(key), e.docs / j.f.days / n, e.rus / n})
		}
	}
	return out
}

// timesOf returns the times of a day at which a key that may contain the hour is another.
func timesOf(day time.Time, hourly bool) []time.Time {
	times := []time.Time{day}
	for h := 1; h < 24 && hourly; h++ {
		times = append(times, day.Add(time.Duration(h)*time.Hour))
	}
	return times
}

// spreadLoads fills in how evenly a layout spreads the loads of days, and the hottest key of the first.
func (j *predictor) spreadLoads(l Layout, days []time.Time, of func(day time.Time) []keyLoad) Layout {
	for i, day := range days {
		loads, keys := make([]float64, len(j.ranges)), map[string]float64{}
		for _, p := range of(day) {
			loads[p.of] += p.rus
			keys[strings.Join(p.key, ", ")] += p.rus
		}
		l.HottestOverMean += hottestOverMean(loads) / float64(len(days))
		if i == 0 {
			l.HottestKey, l.HottestShare = largest(keys)
			l.HottestShare /= j.f.rus
		}
	}
	return l
}

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
	of := func(day time.Time) []keyLoad { return j.keyLoads(s, place, day) }
	l := j.spreadLoads(Layout{Name: s.Name, Key: s.Key}, days, of)
	l.FullInDays = j.full(l.HottestShare, s.hourly || s.daily, s.monthly)
	day := j.days[0]
	all := of(day)
	l.DeviceDay = j.readOf(all, reading{place, s.device(j.typical.entity, day), j.isTypical})
	var prefixes [][]string
	if s.tenant != nil {
		prefixes = s.tenant(j.tenants[0].tenant, day)
	}
	l.TenantDay = j.readOf(all, reading{place, prefixes, j.isLargest})
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

// seeksOfRead is how many conditions a read has: a key, a device or tenant, and the day.
const seeksOfRead = 3

// charged sets the charge of a read. Documents that are found one after the other cost more where others were made
// between them: how many those are follows from the part that they have of their physical partition.
func (j *predictor) charged(out Read, all []keyLoad, visit func(keyLoad) (of string, wanted bool)) Read {
	held, wanted, of := make([]float64, len(j.ranges)), map[string]float64{}, map[string]int{}
	docs := 0.0
	for _, l := range all {
		held[l.of] += l.docs
		if name, ok := visit(l); ok {
			wanted[name] += l.docs
			of[name] = l.of
			docs += l.docs
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

// reading is a read of one day: its keys, or first levels of them, and its devices.
type reading struct {
	place placement
	keys  [][]string // nil: all
	wants func(entity) bool
}

// readOf returns what a read takes: a query for each key, or one of all keys.
func (j *predictor) readOf(all []keyLoad, r reading) Read {
	visit := func(l keyLoad) (string, bool) {
		if len(r.keys) == 0 {
			return strconv.Itoa(l.of), r.wants(l.entity)
		}
		return strings.Join(l.key[:len(r.keys[0])], "\x00"), r.wants(l.entity)
	}
	return j.charged(Read{Keys: len(r.keys), Partitions: r.place.touched(r.keys)}, all, visit)
}

func (j *predictor) priced(l Layout) Layout {
	writes := j.f.rus / (j.f.days * 86400)
	l.NeedRUs = writes*l.HottestOverMean + j.cfg.DeviceReads*l.DeviceDay.RUs + j.cfg.TenantReads*l.TenantDay.RUs
	l.Dollars = dollars(l.NeedRUs)
	return l
}

// now judges the key that the container has, in the ranges that it has. Where its keys contain the time, every coming
// day has new ones.
func (j *predictor) now() Layout {
	timed, days := j.f.timed && j.about.Version > 1, j.days[:1]
	if timed {
		days = j.days[:min(len(j.days), 2*mostHourlyDays)]
	}
	of := func(day time.Time) []keyLoad { return j.keyLoadsNow(timed, day) }
	l := j.spreadLoads(Layout{Name: "as it is", Key: strings.Join(j.about.Key, ", ")}, days, of)
	l.FullInDays = j.full(l.HottestShare, timed, false)
	all := of(j.days[0])
	l.DeviceDay = j.readNow(all, j.isTypical)
	l.TenantDay = j.readNow(all, j.isLargest)
	return j.priced(l)
}

// keyLoadsNow returns the load of a day under the container's key: where it was found or, where keys contain the time,
// will lie.
func (j *predictor) keyLoadsNow(timed bool, day time.Time) (out []keyLoad) {
	live := j.live()
	for _, o := range j.f.loads {
		times := timesOf(day, timed && slices.ContainsFunc(o.key, component.hourly))
		n := float64(len(times))
		for _, at := range times {
			key, of := o.at(at), o.of
			if timed {
				of = live.at(hashOf(key))
			}
			out = append(out, keyLoad{o.entity, levelsOf(key), of, o.docs / j.f.days / n, o.rus / n})
		}
	}
	return out
}

// mostKeys is how many full keys a reader asks one by one; for more it asks all physical partitions where they lie.
const mostKeys = 100

// readNow returns what a read takes under the container's key: a query for each of its keys, or one of all where there
// are many.
func (j *predictor) readNow(all []keyLoad, wants func(entity) bool) Read {
	keys, ranges := map[string]bool{}, map[int]bool{}
	for _, l := range all {
		if wants(l.entity) {
			keys[strings.Join(l.key, ", ")], ranges[l.of] = true, true
		}
	}
	out := Read{Keys: len(keys), Partitions: len(ranges)}
	if len(keys) > mostKeys {
		out = Read{Partitions: len(j.ranges)}
	}
	return j.charged(out, all, func(l keyLoad) (string, bool) {
		if out.Keys == 0 {
			return strconv.Itoa(l.of), wants(l.entity)
		}
		return strings.Join(l.key, ", "), wants(l.entity)
	})
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

func levelsOf(key []component) (parts []string) {
	for _, c := range key {
		parts = append(parts, c.spelled())
	}
	return parts
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
