package loadtest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/sharding/epk"
)

// The scenario sensors: the fleet of the service's page "Choose a partition key for IoT workloads"
// (design-partitioning-iot), kept for a year.
const (
	sensorInterval   = time.Second
	sensorDistricts  = 10 // tenants of Binnacle
	sensorSamples    = 4
	sensorMetrics    = 6
	sensorDays       = 365
	sensorPartitions = 20 // of a month of chunks
	monthDays        = sensorDays / 12.0
	// pageBytes is the size of a document as the page reckons it.
	pageBytes = 1024
	// keyGB is the most that one logical partition holds.
	keyGB = 20
	// containerRUs is the most RU/s of a container, unless the service is asked for more.
	containerRUs = 1_000_000
	// sensors is how many the page has.
	sensors  = 50_000
	gigabyte = 1 << 30
)

const sensorDocument = `{"id":"f47ac10b-58cc-4372-a567-0e02b2c3d479","districtId":"d12345","deviceId":"s67890",` +
	`"day":"2024-01-01","timestamp":"2024-01-01T08:30","temperature":22.5,"humidity":55.2,"airQualityIndex":42,` +
	`"noiseLevel":35,"location":{"latitude":37.7749,"longitude":-122.4194},"batteryLevel":88,"status":"active"}`

// SensorsReport is what a year of the sensors comes to under each key of the page, and with Binnacle. Request units are
// modelled, dollars are list prices. GB and what follows from them have two ends: a document as the page prints it, and
// one of 1 KB, as it reckons.
type SensorsReport struct {
	Sensors int    `json:"sensors"`
	Days    int    `json:"days"`
	Seed    uint64 `json:"seed"`
	Model   string `json:"ru_model"`
	// PerValue is the size of a value in Binnacle's chunks, in bytes.
	PerValue float64     `json:"bytes_per_value"`
	Keys     []SensorKey `json:"keys"`
}

// SensorKey is what a key comes to.
type SensorKey struct {
	Layout string   `json:"layout"`
	Key    []string `json:"key"`
	// Each is the charge of a document, and RUs what all writes take, a second.
	Each ru.Interval `json:"ru_per_document"`
	RUs  ru.Interval `json:"ru_per_second"`
	// Bought is the throughput of the last month.
	Bought Ends `json:"ru_per_second_bought"`
	// Hottest is the load of the hottest physical partition over the mean: of a document per reading in a minute, since
	// what is refused then is refused; of chunks in a day, since they wait.
	Hottest    Ends       `json:"hottest_over_mean"` // on the last day
	HottestAt  Ends       `json:"hottest_over_mean_on_the_first_day"`
	Partitions Ends       `json:"physical_partitions"`
	Accepted   Ends       `json:"share_accepted"`
	GB         Ends       `json:"gb_after_a_year"`
	FullKeys   Ends       `json:"full_keys"`
	FullInDays Ends       `json:"first_key_full_in_days"` // 0: none
	LastMonth  Ends       `json:"dollars_of_the_last_month"`
	Year       Ends       `json:"dollars_of_the_year"`
	Serverless Serverless `json:"serverless"`
}

// Ends is a figure at its low and its high end.
type Ends struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// both returns the figure of both ends.
func both(low, high *sensorYear, of func(*sensorYear) float64) Ends {
	a, b := round(of(low)), round(of(high))
	return Ends{min(a, b), max(a, b)}
}

// SimulateSensors simulates the year for each key.
func SimulateSensors(ctx context.Context, cfg Config) (*SensorsReport, error) {
	if cfg.Devices == DefaultConfig().Devices {
		cfg.Devices = sensors
	}
	cfg.Interval, cfg.Hold, cfg.Partitions = sensorInterval, longHold, sensorPartitions
	cfg = cfg.withDefaults()
	out := &SensorsReport{Sensors: cfg.Devices, Days: sensorDays, Seed: cfg.Seed, Model: cfg.Model.String()}
	keys := sensorKeys(cfg.Devices)
	each, err := chargeSensors(ctx, cfg, keys)
	if err != nil {
		return nil, err
	}
	for i, k := range keys {
		r := SensorKey{Layout: k.name, Key: k.paths, Each: each[i], RUs: each[i].Times(float64(cfg.Devices))}
		low := k.year(cfg.Devices, float64(len(sensorDocument)), r.RUs.Low)
		high := k.year(cfg.Devices, pageBytes, r.RUs.High)
		r.Hottest = both(low, high, func(y *sensorYear) float64 { return last(y.hottest) })
		r.HottestAt = both(low, high, func(y *sensorYear) float64 { return y.begins })
		r.Bought = both(low, high, func(y *sensorYear) float64 { return last(y.bought) })
		r.Partitions = both(low, high, func(y *sensorYear) float64 { return float64(y.partitions) })
		r.Accepted = both(low, high, func(y *sensorYear) float64 { return y.accepted })
		r.GB = both(low, high, func(y *sensorYear) float64 { return y.gb })
		r.FullKeys = both(low, high, func(y *sensorYear) float64 { return y.full })
		r.FullInDays = both(low, high, func(y *sensorYear) float64 { return y.fullIn })
		r.LastMonth = both(low, high, func(y *sensorYear) float64 { return last(y.dollars) })
		r.Year = both(low, high, func(y *sensorYear) float64 { return sumOf(y.dollars) })
		r.Serverless = newServerless(each[i].Likely, 1)
		out.Keys = append(out.Keys, r)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	own, perValue, err := sensorChunks(ctx, cfg)
	out.Keys, out.PerValue = append(out.Keys, own), perValue
	return out, err
}

// sensorKey is a key of the page. Its documents lie evenly on a line; writes of a minute lie at points of it.
type sensorKey struct {
	name  string
	paths []string
	// length is the length of the line, whole whether a cut lies between devices alone, and start returns where a share
	// of the hash space ends on it.
	length float64
	whole  bool
	start  func(share float64) float64
	// points returns where the writes of a minute lie, ascending.
	points func(minute time.Time) []float64
	// keyDays is for how many days a key is written, and writers how many devices write it.
	keyDays, writers float64
}

// place returns where a text lies in the hash space, from 0 to 1.
func place(text string) float64 {
	hi, _ := epk.Sum(epk.String(text))
	return float64(hi) / (1 << 62)
}

func sensorKeys(n int) []sensorKey {
	sorted := make([]float64, n)
	for i := range sorted {
		sorted[i] = place(fmt.Sprintf("s%05d", i))
	}
	sort.Float64s(sorted)
	devices := func(share float64) float64 { return float64(sort.SearchFloat64s(sorted, share)) }
	hashed := func(share float64) float64 { return share }
	once := func(shift float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = float64(i) + shift
		}
		return out
	}
	same := func(text string) []float64 { return slices.Repeat([]float64{place(text)}, n) }
	all := float64(n)
	return []sensorKey{
		{"device", []string{"/deviceId"}, all, true, devices, func(time.Time) []float64 { return once(0) }, sensorDays, 1},
		{"day", []string{"/day"}, 1, false, hashed,
			func(at time.Time) []float64 { return same(at.Format(time.DateOnly)) }, 1, all},
		{"minute", []string{"/timestamp"}, 1, false, hashed,
			func(at time.Time) []float64 { return same(at.Format(minuteFormat)) }, 1.0 / (24 * 60), all},
		{"device and minute in one text", []string{"/deviceMinute"}, 1, false, hashed, func(at time.Time) []float64 {
			out, text := make([]float64, n), at.Format(minuteFormat)
			for i := range out {
				out[i] = place(fmt.Sprintf("s%05d_%s", i, text))
			}
			sort.Float64s(out)
			return out
		}, 1.0 / (24 * 60), 1},
		{"device, then minute (recommended there)", []string{"/deviceId", "/timestamp"}, all, false, devices,
			func(at time.Time) []float64 { return once(place(at.Format(minuteFormat))) }, 1.0 / (24 * 60), 1},
	}
}

// chargeSensors returns the charge of the document under each key, with the default index, as an account charges it.
func chargeSensors(ctx context.Context, cfg Config, keys []sensorKey) (out []ru.Interval, err error) {
	a, err := open(ctx, cfg, true)
	if err != nil {
		return nil, err
	}
	defer a.close()
	for i, k := range keys {
		layout := cosmos.Layout{Name: fmt.Sprintf("sensors-%d", i), Key: k.paths}
		if err := a.client.Containers().CreateAs(ctx, layout, store.Throughput{RUs: unlimitedRUs}); err != nil {
			return nil, err
		}
		values := map[string]string{"/deviceId": "s67890", "/day": "2024-01-01", "/timestamp": "2024-01-01T08:30"}
		doc, key := sensorDocument, []string(nil)
		for _, path := range k.paths {
			if values[path] == "" { // a synthetic key is one property more
				values[path] = "s67890_2024-01-01T08:30"
				doc = strings.Replace(doc, "{", `{"`+path[1:]+`":"`+values[path]+`",`, 1)
			}
			key = append(key, values[path])
		}
		receipt, err := a.client.Items(layout.Name).Create(ctx, key, "f47ac10b-58cc-4372-a567-0e02b2c3d479", []byte(doc))
		if err != nil {
			return nil, err
		}
		m := cfg.Model
		units := int(math.Round((receipt.RUs - m.Write(len(doc), 0)) / ru.Unit))
		out = append(out, m.Interval(func(m ru.Model) float64 {
			if len(k.paths) > 1 {
				return m.Write(len(doc), m.Levels(units, len(k.paths)))
			}
			return m.Write(len(doc), units)
		}))
	}
	return out, nil
}

// sensorYear is a year of a key, by its months where it has several figures.
type sensorYear struct {
	hottest, bought, dollars   []float64
	begins                     float64 // hottest over mean on the first day
	partitions                 int
	accepted, gb, full, fullIn float64
}

// year simulates the year of a key day by day: what is stored splits partitions where half of their bytes lie on either
// side, and the writes of a minute of each day show how hot the hottest one is. Throughput is bought so that it takes
// its part, up to what a partition serves; beyond that readings are refused, as they are once their key is full.
func (k *sensorKey) year(n int, bytes, rus float64) *sensorYear {
	y := &sensorYear{}
	parts := ru.Partitions(rus, false)
	cuts := make([]float64, parts+1)
	for i := range parts {
		cuts[i] = k.start(float64(i) / float64(parts))
	}
	cuts[parts] = k.length
	daily := float64(n*daySeconds) * bytes / gigabyte
	bought := 0.0
	for d := range sensorDays {
		at := midnight.AddDate(0, 0, d).Add(time.Duration(d*61%(24*60)) * time.Minute)
		hottest, serves := k.hottest(cuts, at), ru.PartitionRUs*float64(len(cuts)-1)
		if d == 0 {
			y.begins = hottest
		}
		share := min(1, serves/(rus*hottest))
		share *= y.keys(k, float64(d), daily*share*k.writers/float64(n))
		y.accepted += share / sensorDays
		y.gb += daily * share
		bought = max(bought, min(rus*hottest, serves))
		if month := int(float64(d+1) / monthDays); month > len(y.dollars) {
			bought = math.Ceil(max(bought, ru.Floor(y.gb, 0, false))/100) * 100
			y.hottest, y.bought = append(y.hottest, hottest), append(y.bought, bought)
			y.dollars = append(y.dollars, ru.Price(ru.Priced{RUs: bought, Container: true, GB: y.gb}).Most)
			bought = 0
		}
		cuts = k.split(cuts, y.gb/k.length)
	}
	y.partitions = len(cuts) - 1
	return y
}

// keys counts full keys on a day on which each takes GB, and returns the share of the day's readings that keys take.
func (y *sensorYear) keys(k *sensorKey, d, gb float64) float64 {
	fullIn := keyGB / gb // days
	if fullIn >= k.keyDays {
		return 1
	}
	if y.fullIn == 0 {
		y.fullIn = fullIn
	}
	if k.keyDays < sensorDays { // each day has a key
		y.full++
		return fullIn / k.keyDays
	}
	if d < fullIn {
		return 1
	}
	y.full = k.length
	return 0
}

func last(values []float64) float64 { return values[len(values)-1] }

// split returns the cuts of partitions once the line holds GB for each of its parts.
func (k *sensorKey) split(cuts []float64, density float64) []float64 {
	for {
		out := make([]float64, 0, len(cuts))
		for i := range len(cuts) - 1 {
			from, to := cuts[i], cuts[i+1]
			out = append(out, from)
			middle := (from + to) / 2
			if k.whole {
				middle = math.Floor(middle)
			}
			if (to-from)*density >= ru.PartitionGB && middle > from {
				out = append(out, middle)
			}
		}
		out = append(out, k.length)
		if len(out) == len(cuts) {
			return cuts
		}
		cuts = out
	}
}

// hottest returns how many writes of a minute the partition has that has most, over the mean.
func (k *sensorKey) hottest(cuts []float64, minute time.Time) float64 {
	points := k.points(minute)
	most, at := 0, 0
	for i := 1; i < len(cuts); i++ {
		from := at
		for at < len(points) && (points[at] < cuts[i] || i == len(cuts)-1) {
			at++
		}
		most = max(most, at-from)
	}
	return float64(most) * float64(len(cuts)-1) / float64(len(points))
}

// sensorChunks simulates the year of Binnacle, chunk by chunk, in containers of a month.
func sensorChunks(ctx context.Context, cfg Config) (key SensorKey, perValue float64, err error) {
	samples, err := sampleDay(ctx, cfg, Sensors)
	if err != nil {
		return key, 0, err
	}
	m := &simulation{cfg: cfg, of: Simulation{Tenants: sensorDistricts, Days: sensorDays}, samples: samples}
	sim, err := m.simulate(ctx, Uniform)
	if err != nil {
		return key, 0, err
	}
	each := cfg.Model.Interval(func(model ru.Model) (rus float64) {
		chunks := 0
		for _, s := range samples {
			for _, c := range s.chunks {
				rus += model.Write(int(c.bytes), model.Levels(5*ru.Scalar, 2))
				chunks++
			}
		}
		return rus / float64(chunks)
	})
	perSecond := sim.Chunks / float64(daySeconds)
	first, end := sim.Days[0], sim.Days[len(sim.Days)-1]
	r := SensorKey{Layout: "Binnacle: chunks", Key: []string{"/tenantShard", "/device"}, Each: each,
		RUs: each.Times(perSecond), Hottest: Ends{end.Hottest, end.Hottest}, HottestAt: Ends{first.Hottest, first.Hottest},
		Accepted: Ends{1, 1}, Partitions: Ends{float64(cfg.Partitions), float64(cfg.Partitions)}}
	// The index takes from nothing to a fifth of the documents, and a tenth is taken.
	month := sim.GB / sensorDays * monthDays
	low, high := month/(1+indexShare), month/(1+indexShare)*(1+2*indexShare)
	r.GB = Ends{round(12 * low), round(12 * high)}
	for months := 1; months <= 12; months++ {
		a, b := chunkMonth(low, r.RUs.Low*end.Hottest, months), chunkMonth(high, r.RUs.High*end.Hottest, months)
		r.LastMonth, r.Bought = Ends{a.Dollars, b.Dollars}, Ends{a.RUs, b.RUs}
		r.Year = Ends{round(r.Year.Low + a.Dollars), round(r.Year.High + b.Dollars)}
	}
	r.Serverless = newServerless(r.RUs.Likely/float64(cfg.Devices), end.Busiest)
	return r, sim.PerValue, nil
}

// chunkMonth returns what chunks cost in a month of the year: the base containers, one of the month that follows the
// load, and those before it at the least that they are sold for.
func chunkMonth(gb, rus float64, months int) (m Enough) {
	for _, c := range cosmos.Base() {
		m.Dollars += ru.Price(provision.Priced(c)).Least
	}
	for i := range months {
		each := ru.Floor(gb, 0, false)
		if i == 0 {
			each = max(each, buy(rus/utilisation))
		}
		m.RUs += each
		m.Dollars += ru.Price(ru.Priced{RUs: each, Container: true, GB: gb}).Most
	}
	m.Dollars = round(m.Dollars)
	return m
}

func sumOf(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}
