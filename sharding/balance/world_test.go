package balance_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"binnacle/internal/telemetry"
	"binnacle/sharding"
	"binnacle/sharding/balance"
	"binnacle/sharding/epk"
)

// world is a container's tenants and devices. Their load differs from day to day.
type world struct {
	rnd     *rand.Rand
	ranges  []epk.Range
	tenants []*tenant
	day     telemetry.Day
	others  float64 // part of the RU that queries, rollups and backfills take
	epochs  int
}

type tenant struct {
	name      string
	placement *sharding.Placement
	devices   []device
	level     float64
	reads     float64 // RU of queries, rollups and backfills to one of chunk writes
	weekend   float64
	days      []float64
	spots     map[string][]part
}

type device struct {
	name  string
	rate  float64 // RU of a day
	bytes float64 // of a day's chunks
	today float64
	last  []float64 // of the last seven days
}

type part struct {
	at int
	of float64
}

// paces are how many devices report how often, in seconds, and the RU of a day's chunks.
var paces = []struct{ part, rus, seconds float64 }{{0.1, 275, 1}, {0.3, 33, 10}, {0.4, 11, 60}, {0.2, 8, 300}}

func (w *world) newDevice(t *tenant, i int) device {
	x, pace := w.rnd.Float64(), 0
	for pace < len(paces)-1 && x >= paces[pace].part {
		x -= paces[pace].part
		pace++
	}
	spread := math.Exp(0.15 * w.rnd.NormFloat64())
	return device{name: fmt.Sprintf("%s-truck-%05d", t.name, i), rate: paces[pace].rus * spread,
		bytes: bytesASecond * 86_400 / paces[pace].seconds * spread}
}

// bytesASecond is what a device stores that reports each second: ten values of 0.8 bytes.
const bytesASecond = 8.0

// start is the first day of worlds: the 3rd of a month.
var start = telemetry.DayOf(1_793_664_000_000)

// newWorld deals devices to tenants by shares. With some part of others, queries, rollups and backfills take it.
func newWorld(seed uint64, shares []float64, devices int, others float64) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 11)), day: start, others: others}
	for i, share := range shares {
		t := &tenant{name: fmt.Sprintf("t%d-%d", seed, i), level: 1, weekend: 1, spots: map[string][]part{}}
		n := max(1, int(math.Round(share*float64(devices))))
		for d := range n {
			t.devices = append(t.devices, w.newDevice(t, d))
		}
		t.reads = others / (1 - others) * math.Exp(0.3*w.rnd.NormFloat64())
		w.place(t, sharding.FirstEpoch(t.name, 4))
		w.tenants = append(w.tenants, t)
	}
	return w
}

func (w *world) place(t *tenant, e sharding.Epoch) {
	epochs := []sharding.Epoch{e}
	if t.placement != nil {
		epochs = append(t.placement.Epochs(), e)
	}
	p, err := sharding.NewPlacement(t.name, epochs)
	if err != nil {
		panic(err)
	}
	t.placement = p
}

// at is where the documents of a first-level key lie.
func (w *world) at(t *tenant, shard string) []part {
	if s, ok := t.spots[shard]; ok {
		return s
	}
	var out []part
	key := epk.MultiHash(epk.String(shard))
	const samples = 64
	for i := range samples { // where the key was split, by its devices
		full := key + epk.MultiHash(epk.String(fmt.Sprint("sample", i)))
		at := slices.IndexFunc(w.ranges, func(r epk.Range) bool { return r.Contains(full) })
		if j := slices.IndexFunc(out, func(p part) bool { return p.at == at }); j >= 0 {
			out[j].of += 1.0 / samples
		} else {
			out = append(out, part{at, 1.0 / samples})
		}
	}
	t.spots[shard] = out
	return out
}

func (w *world) split(times int) {
	for range times {
		i := w.rnd.IntN(len(w.ranges))
		r := w.ranges[i]
		cut := 0.0
		from, to := position(r.Min), 1.0
		if i+1 < len(w.ranges) {
			to = position(r.Max)
		}
		cut = from + (to-from)*(1+w.rnd.Float64())/3
		text := fmt.Sprintf("%015X%017d", uint64(cut*(1<<58)), 0)
		w.ranges = slices.Insert(w.ranges, i+1, epk.Range{Min: text, Max: r.Max})
		w.ranges[i].Max = text
	}
	for _, t := range w.tenants {
		clear(t.spots)
	}
}

func position(key string) float64 {
	var x uint64
	if key == "" {
		return 0
	}
	fmt.Sscanf(key[:15], "%X", &x)
	return float64(x) / (1 << 58)
}

// live lets a day pass: what devices report, and the RU by partition under the epochs of that day. It returns hottest
// over mean, and what is known of the day.
func (w *world) live() (ratio float64, known []balance.Tenant) {
	load := make([]float64, len(w.ranges))
	for _, t := range w.tenants {
		known = append(known, w.liveTenant(t, load))
	}
	w.day++
	sum := 0.0
	for _, l := range load {
		sum += l
	}
	return slices.Max(load) / sum * float64(len(load)), known
}

func (w *world) liveTenant(t *tenant, load []float64) balance.Tenant {
	known := balance.Tenant{Name: t.name, Placement: t.placement}
	e := t.placement.EpochOn(w.day)
	keys := map[string]*balance.Key{}
	add := func(shard string, writes, others float64) {
		k := keys[shard]
		if k == nil {
			k = &balance.Key{Shard: shard}
			keys[shard] = k
		}
		k.Writes, k.Others = k.Writes+writes, k.Others+others
		for _, s := range w.at(t, shard) {
			load[s.at] += s.of * (writes + others)
		}
	}
	level, whole := t.level, 0.0
	if int(w.day)%7 >= 5 {
		level *= t.weekend
	}
	const listed = 4096
	groups := make([]float64, len(e.Slots))
	for i := range t.devices {
		d := &t.devices[i]
		d.today = d.rate * level * math.Exp(0.15*w.rnd.NormFloat64())
		if w.rnd.Float64() < 0.02 {
			d.today = 0
		}
		whole += d.today
		if slots := e.Heavy[d.name]; len(slots) > 1 {
			for _, s := range slots {
				add(t.placement.Shard(s), d.today/float64(len(slots)), 0)
			}
		} else {
			groups[sharding.GroupOf(d.name, len(e.Slots))] += d.today
		}
	}
	reads := t.reads * whole * math.Exp(0.1*w.rnd.NormFloat64())
	for i, s := range e.Slots {
		// Readers of all devices visit each key; the rest follows what is stored there, and what is asked.
		part := 0.3/float64(len(groups)) + 0.7*groups[i]/max(whole, 1)
		add(t.placement.Shard(s), groups[i], reads*part*math.Exp(0.03*w.rnd.NormFloat64()))
	}
	for _, shard := range slices.Sorted(mapKeys(keys)) {
		known.Keys = append(known.Keys, *keys[shard])
	}
	known.Fan = 0.1 * reads / float64(len(groups))
	w.listDevices(t, &known, listed)
	t.days = append([]float64{whole + reads}, t.days...)
	t.days = t.days[:min(len(t.days), 8)]
	known.Days = t.days
	return known
}

// listDevices lists the heaviest devices by name and the others by bucket.
func (w *world) listDevices(t *tenant, known *balance.Tenant, listed int) {
	total := 0
	for _, o := range w.tenants {
		total += len(o.devices)
	}
	if len(t.devices)*100 < total {
		return
	}
	bound := 0.0
	if len(t.devices) > listed {
		sorted := make([]float64, len(t.devices))
		for i, d := range t.devices {
			sorted[i] = d.today
		}
		slices.Sort(sorted)
		bound = sorted[len(sorted)-listed]
		known.Rest = make([]float64, 5040)
	}
	for i := range t.devices {
		d := &t.devices[i]
		d.last = append(d.last, d.today)
		d.last = d.last[max(0, len(d.last)-7):]
		if d.today > bound || bound == 0 {
			known.Devices = append(known.Devices, balance.Device{Name: d.name, RUs: d.today, Peak: slices.Max(d.last),
				Usual: mean(d.last)})
		} else {
			known.Rest[sharding.GroupOf(d.name, len(known.Rest))] += d.today
		}
	}
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// decide creates the epochs of the next day.
func (w *world) decide(known []balance.Tenant) balance.Decision {
	d := balance.Decide(balance.Input{Day: w.day, Measured: w.day - 1, Ranges: w.ranges, Tenants: known})
	for _, c := range d.Changes {
		for _, t := range w.tenants {
			if t.name == c.Tenant {
				w.place(t, c.Epoch)
				w.epochs++
			}
		}
	}
	return d
}

// again decides once more by what was known, with the epochs that were created since.
func (w *world) again(known []balance.Tenant) balance.Decision {
	known = slices.Clone(known)
	for i, t := range w.tenants {
		known[i].Placement = t.placement
	}
	return balance.Decide(balance.Input{Day: w.day, Measured: w.day - 1, Ranges: w.ranges, Tenants: known})
}

// decideAhead decides; for the first day of a month by the ranges of the new container.
func (w *world) decideAhead(known []balance.Tenant, n int) {
	before := w.ranges
	if w.day == telemetry.DayOf(w.day.Month().Range().From) {
		w.ranges = epk.Split(n)
	}
	w.decide(known)
	w.ranges = before
}
