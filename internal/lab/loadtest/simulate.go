package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"binnacle/binning"
	"binnacle/internal/charges/ru"
	"binnacle/internal/heat"
	"binnacle/internal/settings"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/progress"
	"binnacle/sharding"
	"binnacle/sharding/balance"
	"binnacle/sharding/epk"
)

// Simulation is a fleet that is too large for a load test: its chunks are simulated one by one, its readings are not.
// Its tags are package settings's.
type Simulation struct {
	Tenants int `name:"simulate-tenants" help:"Tenants of a simulated fleet." default:"1000" placeholder:"N"`
	Days    int `name:"simulate-days" help:"Days that are simulated." default:"30" placeholder:"N"`
}

// The bounds of a simulation.
const (
	maxSimDevices    = 50_000_000
	maxSimTenants    = 50_000
	maxSimPartitions = 200
	maxSimDays       = 92
)

// simSamples is how many devices are put through ingest to learn the chunks of a day.
const simSamples = 100

// heardShare is the share of the load from which on a tenant's devices are known to the balancer by hash: of smaller
// tenants it knows the keys.
const heardShare = 1e-3

const daySeconds = int(day / time.Second)

// SimulatedDay is what came of a day.
type SimulatedDay struct {
	// Day counts from 1.
	Day     int     `json:"day"`
	Hottest float64 `json:"hottest_over_mean"`
	// Busiest is the load of the busiest minute over the mean, of all partitions together.
	Busiest   float64 `json:"busiest_minute_over_mean"`
	Throttled float64 `json:"share_throttled"`
	Wait      float64 `json:"longest_wait_seconds"`
	// Epochs counts the balancer's epochs that begin on the day.
	Epochs   int     `json:"epochs_by_the_balancer"`
	Forecast float64 `json:"forecast_hottest_over_mean"`
}

// SimulationReport is what a simulation has found. Request units are modelled.
type SimulationReport struct {
	Scenario        Scenario `json:"scenario"`
	Devices         int      `json:"devices"`
	Tenants         int      `json:"tenants"`
	Partitions      int      `json:"physical_partitions"`
	IntervalSeconds float64  `json:"interval_seconds"`
	HoldSeconds     float64  `json:"hold_seconds"`
	Seed            uint64   `json:"seed"`
	Model           string   `json:"ru_model"`

	Values     float64 `json:"values_per_second"`
	Chunks     float64 `json:"chunks_per_day"`
	ChunkBytes float64 `json:"bytes_per_chunk"`
	PerValue   float64 `json:"bytes_per_value"`
	PerMillion float64 `json:"ru_per_million_values"`
	Mean       float64 `json:"ru_per_second"`
	Bought     float64 `json:"ru_per_second_bought"`
	// SecondHolds is the number of writes for which a second of one physical partition has budget.
	SecondHolds float64 `json:"writes_per_partition_second"`
	// GB is the size of the container, with its index, at the end.
	GB          float64 `json:"gb"`
	FullestGB   float64 `json:"gb_of_fullest"`     // physical partition
	LargestKey  float64 `json:"gb_of_largest_key"` // first level
	ByStorage   int     `json:"physical_partitions_by_storage"`
	Dollars     float64 `json:"dollars_per_month"` // throughput and storage of the container
	LargestKeys int     `json:"keys_of_the_largest_tenant"`
	Keys        int     `json:"keys"` // first level, of all tenants
	EpochBytes  int     `json:"bytes_of_epochs"`

	Days []SimulatedDay `json:"days"`
}

// simKey is a first-level key.
type simKey struct {
	partition int32
	rus       float64 // a day
	// bytes is the size of the documents stored under the key.
	bytes float64
}

// simTenant is a tenant of a simulation.
type simTenant struct {
	name      string
	placement *sharding.Placement
	// keys maps a shard to its key.
	keys map[string]uint32
	rest []float64 // RU of a day by bucket, of a large tenant
	rus  float64
}

// simulation is a run. Slices by device hold the devices' state.
type simulation struct {
	cfg     Config
	of      Simulation
	samples []simSample
	ranges  []epk.Range
	tenants []simTenant
	keys    []simKey

	tenant []uint16
	key    []uint32
	phase  []uint32 // ms
	sample []uint8
	spread map[int][]uint32 // keys of devices that have several, in the order of their chunks' numbers
}

// ValidateSimulation reports every fault of a simulation at once.
func (c Config) ValidateSimulation(of Simulation, s Scenario) error {
	var faults settings.Faults
	faults.Within("devices", c.Devices, minDevices, maxSimDevices)
	faults.Within("tenants", of.Tenants, 1, maxSimTenants)
	faults.Within("physical partitions", c.Partitions, minPartitions, maxSimPartitions)
	faults.Within("days", of.Days, 1, maxSimDays)
	faults.Check(s == Uniform || s == Whale || s == Zipf, "scenario %s: uniform, whale and zipf are simulated", s)
	faults.Check(c.Interval >= time.Second && c.Hold >= c.Interval && c.Hold <= day,
		"an interval of %s and a hold of %s: a second and more, and up to a day, are allowed", c.Interval, c.Hold)
	return faults.Err()
}

// Simulate learns the chunks of a day from devices that go through ingest, and simulates a fleet of such
// devices: the time, charge and size of each chunk, and its key by the epochs. The balancer adds epochs each
// evening.
func Simulate(ctx context.Context, cfg Config, of Simulation, s Scenario) (SimulationReport, error) {
	cfg = cfg.withDefaults()
	if err := cfg.ValidateSimulation(of, s); err != nil {
		return SimulationReport{}, err
	}
	samples, err := sampleDay(ctx, cfg)
	if err != nil {
		return SimulationReport{}, err
	}
	m := &simulation{cfg: cfg, of: of, samples: samples}
	return m.simulate(ctx, s)
}

// simulate makes the fleet, and simulates its days.
func (m *simulation) simulate(ctx context.Context, s Scenario) (SimulationReport, error) {
	m.ranges, m.spread = epk.Split(m.cfg.Partitions), map[int][]uint32{}
	bar := progress.New(m.cfg.Progress, "days", int64(m.of.Days)+2)
	defer bar.Clear()
	if err := m.populate(s); err != nil {
		return SimulationReport{}, err
	}
	bar.Add(1)
	return m.run(ctx, s, bar)
}

// populate makes tenants and devices, and places them.
func (m *simulation) populate(s Scenario) error {
	n := m.cfg.Devices
	m.tenant, m.key, m.phase, m.sample = make([]uint16, n), make([]uint32, n), make([]uint32, n), make([]uint8, n)
	law := s.law(m.of.Tenants)
	m.tenants = make([]simTenant, m.of.Tenants)
	for i := range m.tenants {
		m.tenants[i] = simTenant{name: "tenant-" + strconv.Itoa(i), keys: map[string]uint32{}}
	}
	total := 0.0
	for i := range n {
		// Samples are dealt by another law than tenants.
		m.tenant[i], m.sample[i] = uint16(law(i)), uint8(uint64(i)*0x9e3779b97f4a7c15>>32%uint64(len(m.samples)))
		rus := m.samples[m.sample[i]].rus
		m.tenants[m.tenant[i]].rus += rus
		total += rus
	}
	all := make([]int, len(m.tenants))
	for i := range m.tenants {
		t := &m.tenants[i]
		if all[i] = i; t.rus >= heardShare*total {
			t.rest = make([]float64, heat.Buckets)
		}
		var err error
		if t.placement, err = sharding.NewPlacement(t.name, []sharding.Epoch{sharding.FirstEpoch(t.name,
			sharding.DefaultSlots)}); err != nil {
			return err
		}
	}
	m.each(func(from, to int) {
		for i := from; i < to; i++ {
			m.phase[i] = uint32(binning.FirstHold(truckID(i), m.cfg.Hold).Milliseconds())
		}
	})
	for i := range n {
		if t := &m.tenants[m.tenant[i]]; t.rest != nil {
			t.rest[sharding.GroupOf(truckID(i), heat.Buckets)] += m.samples[m.sample[i]].rus
		}
	}
	m.place(m.cfg.firstDay(), all)
	return nil
}

// each has all devices done, in parts, by as many goroutines as there are processors.
func (m *simulation) each(part func(from, to int)) {
	var all sync.WaitGroup
	n, parts := m.cfg.Devices, runtime.GOMAXPROCS(0)
	for w := range parts {
		all.Go(func() { part(w*n/parts, (w+1)*n/parts) })
	}
	all.Wait()
}

// place gives the devices of some tenants the keys of a day.
func (m *simulation) place(of telemetry.Day, changed []int) {
	isChanged := make([]bool, len(m.tenants))
	for _, i := range changed {
		isChanged[i] = true
		for _, k := range m.tenants[i].keys {
			m.keys[k].rus = 0
		}
	}
	for i := range m.tenant {
		t := &m.tenants[m.tenant[i]]
		if !isChanged[m.tenant[i]] {
			continue
		}
		places := t.placement.Keys(truckID(i), of)
		rus := m.samples[m.sample[i]].rus / float64(len(places))
		several := make([]uint32, 0, 1)
		for _, p := range places {
			k := m.keyOf(int(m.tenant[i]), p.TenantShard)
			m.keys[k].rus += rus
			several = append(several, k)
		}
		m.key[i] = several[0]
		delete(m.spread, i)
		if len(several) > 1 {
			m.spread[i] = several
		}
	}
}

func (m *simulation) keyOf(tenant int, shard string) uint32 {
	t := &m.tenants[tenant]
	k, known := t.keys[shard]
	if !known {
		k = uint32(len(m.keys))
		t.keys[shard] = k
		at := epk.MultiHash(epk.String(shard), epk.String(""))
		in := slices.IndexFunc(m.ranges, func(r epk.Range) bool { return r.Contains(at) })
		m.keys = append(m.keys, simKey{partition: int32(in)})
	}
	return k
}

// run simulates the days. The chunks of the day before the first one are there, and not counted.
func (m *simulation) run(ctx context.Context, s Scenario, bar progress.Bar) (SimulationReport, error) {
	out := SimulationReport{Scenario: s, Devices: m.cfg.Devices, Tenants: m.of.Tenants, Partitions: m.cfg.Partitions,
		IntervalSeconds: m.cfg.Interval.Seconds(), HoldSeconds: m.cfg.Hold.Seconds(), Seed: m.cfg.Seed,
		Model: m.cfg.Model.String()}
	total := 0.0
	for i := range m.tenants {
		total += m.tenants[i].rus
	}
	out.Mean = total / float64(daySeconds)
	loads := make([]*simLoad, runtime.GOMAXPROCS(0))
	for w := range loads {
		loads[w] = m.newLoad()
	}
	queue := make([]float64, m.cfg.Partitions)
	var stored simLoad
	// last is the day that was written last. The days after it have its load again until a key changes.
	var last struct {
		simLoad
		day SimulatedDay
	}
	var epochs, quiet int // quiet counts days without epochs
	var forecast float64
	var err error
	for n := range m.of.Days + 1 {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if repeats := quiet > 2 && slices.Max(queue) == 0; !repeats {
			sum := m.written(loads)
			if n == 0 {
				out.Bought = ru.Sold(max(out.Mean/utilisation, ru.Floor(m.gigabytes(sum.all)*float64(m.of.Days), 0, false)), false)
			}
			last.day = m.firstDay(sum, out.Bought, queue)
			last.chunks, last.values, last.all = sum.chunks, sum.values, sum.all
			last.bytes = append(last.bytes[:0], sum.bytes...)
			sum.next(m.cfg.Partitions)
		}
		d := last.day
		d.Day, d.Epochs, d.Forecast = n, epochs, forecast
		if epochs, forecast, err = m.evening(m.cfg.firstDay() + telemetry.Day(n)); err != nil {
			return out, err
		}
		if quiet++; epochs > 0 {
			quiet = 0
		}
		if n > 0 {
			out.Days = append(out.Days, d)
			stored.chunks, stored.values, stored.all = stored.chunks+last.chunks, stored.values+last.values, stored.all+last.all
			for k, bytes := range last.bytes {
				m.keys[k].bytes += bytes
			}
		}
		bar.Add(1)
	}
	m.finish(&out, &stored)
	return out, nil
}

// firstDay returns the figures of the first day of a load with bought RU/s. queue holds the backlog of each
// partition, in RU.
func (m *simulation) firstDay(l *simLoad, bought float64, queue []float64) (d SimulatedDay) {
	budget := bought / float64(m.cfg.Partitions)
	minutes := make([]float64, 24*60)
	var total, hottest, requests, throttled float64
	for p := range m.cfg.Partitions {
		sum := 0.0
		for second := range daySeconds {
			at := p*2*daySeconds + second
			rus, n := float64(l.rus[at]), float64(l.requests[at])
			sum += rus
			minutes[second/60] += rus
			requests += n
			queue[p] += rus
			// The request that takes the last of a second's budget is served: the service refuses those after it.
			if over := queue[p] - budget; over > 0 && n > 0 {
				throttled += min(n, math.Floor(over/(rus/n)))
			}
			queue[p] = max(0, queue[p]-budget)
			d.Wait = max(d.Wait, queue[p]/budget)
		}
		hottest, total = max(hottest, sum), total+sum
	}
	if total > 0 {
		d.Hottest = round(hottest / total * float64(m.cfg.Partitions))
		d.Busiest = round(slices.Max(minutes) / total * float64(len(minutes)))
		d.Throttled = round(throttled / requests)
	}
	d.Wait = round(d.Wait)
	return d
}

// evening has the balancer decide on the next day, and places its chunks so. It returns the number of epochs, and how
// hot the hottest physical partition is foreseen to be, over the mean.
func (m *simulation) evening(today telemetry.Day) (epochs int, forecast float64, err error) {
	in := balance.Input{Day: today + 1, Measured: today, Ranges: m.ranges}
	index := map[string]int{}
	for i := range m.tenants {
		t := &m.tenants[i]
		index[t.name] = i
		one := balance.Tenant{Name: t.name, Placement: t.placement, Rest: t.rest}
		for _, shard := range slices.Sorted(maps.Keys(t.keys)) {
			if k := &m.keys[t.keys[shard]]; k.rus > 0 {
				one.Keys = append(one.Keys, balance.Key{Shard: shard, Writes: k.rus})
			}
		}
		in.Tenants = append(in.Tenants, one)
	}
	decision := balance.Decide(in)
	var changed []int
	for _, c := range decision.Changes {
		t := &m.tenants[index[c.Tenant]]
		if t.placement, err = sharding.NewPlacement(t.name, append(t.placement.Epochs(), c.Epoch)); err != nil {
			return 0, 0, fmt.Errorf("epoch of the balancer: %w", err)
		}
		changed = append(changed, index[c.Tenant])
	}
	if len(changed) > 0 {
		m.place(today+1, changed)
	}
	return len(changed), round(decision.After), nil
}

// indexShare is the size of the index over the size of the documents of chunks.
const indexShare = 0.1

func (m *simulation) gigabytes(bytes float64) float64 { return bytes * (1 + indexShare) / 1e9 }

// finish fills in what all days have together.
func (m *simulation) finish(out *SimulationReport, stored *simLoad) {
	days := float64(m.of.Days)
	out.Values = round(stored.values / days / float64(daySeconds))
	out.Chunks = round(float64(stored.chunks) / days)
	out.ChunkBytes = round(stored.all / float64(stored.chunks))
	out.PerValue = round(stored.all / stored.values)
	out.SecondHolds = round(out.Bought / float64(m.cfg.Partitions) / (out.Mean * float64(daySeconds) / out.Chunks))
	out.PerMillion = round(out.Mean * float64(daySeconds) * days * 1e6 / stored.values)
	out.Mean = round(out.Mean)
	out.GB = round(m.gigabytes(stored.all))
	perPartition := make([]float64, m.cfg.Partitions)
	for i := range m.keys {
		k := &m.keys[i]
		perPartition[k.partition] += m.gigabytes(k.bytes)
		out.LargestKey = max(out.LargestKey, round(m.gigabytes(k.bytes)))
	}
	out.FullestGB = round(slices.Max(perPartition))
	out.ByStorage = max(1, int(math.Ceil(out.GB/ru.PartitionGB)))
	out.Dollars = round(ru.Price(ru.Priced{RUs: out.Bought, Container: true, GB: out.GB}).Most)
	largest := slices.MaxFunc(m.tenants, func(a, b simTenant) int { return int(a.rus - b.rus) })
	last := m.cfg.firstDay() + telemetry.Day(m.of.Days)
	out.LargestKeys = len(largest.placement.EpochOn(last).Slots)
	for i := range m.tenants {
		epochs := m.tenants[i].placement.Epochs()
		out.Keys += len(epochs[len(epochs)-1].Slots)
		for _, e := range epochs {
			out.EpochBytes += epochBytes(e)
		}
	}
}

// epochBytes returns what an epoch takes in its tenant's document.
func epochBytes(e sharding.Epoch) int {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // numbers and strings
	}
	return len(text)
}
