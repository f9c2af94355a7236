package planner

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"binnacle/internal/charges/ru"
	"binnacle/sharding"
)

// Plan is what a workload needs and costs. Request units are modelled, prices are list prices.
type Plan struct {
	Workload Workload `json:"workload"`
	Seed     uint64   `json:"seed"`
	Futures  int      `json:"futures"`
	Figures  []Figure `json:"figures"`
	// Bill lists the costs of the last month.
	Bill   []Line   `json:"bill"`
	Others []Line   `json:"other_models"`
	Months []Figure `json:"dollars_by_month"`
	Chosen string   `json:"chosen"`
	// Ways lists all ways to buy, the cheapest first, and Spans what the chosen one costs by the length of containers.
	Ways  []Way    `json:"ways"`
	Spans []Figure `json:"by_containers"`
	// Keeping lists what other retentions cost, and Storage what is kept of the workload's.
	Keeping []Keeping `json:"by_retention"`
	Storage Storage   `json:"storage"`
	// Isolation lists what keeping tenants apart costs, in the last month.
	Isolation []Isolation `json:"isolation"`
	Triggers  []Trigger   `json:"triggers"`
	Patterns  []Access    `json:"patterns"`
	Rollups   string      `json:"rollups_pay"`
	// TooMuch says why Binnacle or Cosmos DB is too much for the workload, and from which size on it is not.
	TooMuch    []string `json:"too_much,omitempty"`
	Slots      int      `json:"slots_of_the_largest_tenant"`
	Throughput Bought   `json:"throughput"`
	Documents  []string `json:"-"` // samples, by the encoder

	option option
	device encoded
}

// Bought is the throughput of the hot container.
type Bought struct {
	RUs        float64 `json:"ru_per_second"` // of a serverless account what a container serves
	Way        string  `json:"way"`
	Partitions int     `json:"physical_partitions"`
	Containers int     `json:"containers"`
}

// Figure is a figure with its percentiles over futures.
type Figure struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Basis Basis   `json:"basis"`
	P5    float64 `json:"p5"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
}

// Line is a line of a bill, in dollars a month.
type Line = Figure

// Trigger is a bound of the modelling guide, and what it means here.
type Trigger struct {
	Bound   string `json:"bound"`
	Reached bool   `json:"reached"`
	Means   string `json:"means"`
}

// Access is an access pattern with what it does to keys.
type Access struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Type      string  `json:"type"`
	Mean      float64 `json:"per_second_mean"`
	Peak      float64 `json:"per_second_peak"`
	Operation string  `json:"operation"`
	RUs       float64 `json:"ru_each"`
	Keys      float64 `json:"keys"`
	Hottest   float64 `json:"ru_per_second_of_the_hottest_key"`
	Verdict   string  `json:"verdict"`
	Single    float64 `json:"ru_each_document_per_reading"`
	Hundred   float64 `json:"ru_each_hundred_readings"`
}

// planner is a workload with what its devices come to.
type planner struct {
	of        Workload
	surfaces  []*surface
	documents []string
}

func newPlanner(w Workload) (*planner, error) {
	p := &planner{of: w}
	for i := range w.Fleets {
		var documents []string
		s, err := w.encode(&w.Fleets[i], &documents)
		if err != nil {
			return nil, err
		}
		p.surfaces = append(p.surfaces, s)
		p.documents = append(p.documents, documents...)
	}
	return p, nil
}

// outcome is what a future comes to by month.
type outcome struct {
	first, last load
	bills       [][]bill // by option, then month
	others      [models]bill
	// dollars holds the cost of all months together, by option.
	dollars []float64
	unfit   []bool // options that can't be had in a month, or that provision does not make
}

func (p *planner) outcome(f *future) outcome {
	var o outcome
	all := options()
	o.bills, o.dollars, o.unfit = make([][]bill, len(all)), make([]float64, len(all)), make([]bool, len(all))
	for month := range p.of.Months {
		l := f.load(month)
		if month == 0 {
			o.first = l
		}
		o.last = l
		for i, x := range all {
			h := f.under(&l, month, x, chunks)
			b := h.bill()
			o.bills[i] = append(o.bills[i], b)
			o.dollars[i] += b.total()
			o.unfit[i] = o.unfit[i] || x.months == allTime || p.of.leavesOut(x.way) != "" || h.fault() != ""
		}
	}
	for m := single; m < models; m++ {
		o.others[m] = f.other(&o.last, p.of.Months-1, m)
	}
	return o
}

// New returns the plan of a workload, based on a number of simulated futures.
func New(w Workload, seed uint64, futures int) (*Plan, error) {
	p, err := newPlanner(w)
	if err != nil {
		return nil, err
	}
	all := p.simulate(seed, futures)
	best, regrets := choose(all)
	if math.IsInf(regrets[best], 1) {
		return nil, fmt.Errorf("no way to buy is left: %s", strings.Join(w.Without, ", "))
	}
	plan := &Plan{Workload: w, Seed: seed, Futures: futures, option: options()[best], Chosen: options()[best].String()}
	plan.Documents = p.documents[:min(10, len(p.documents))]
	plan.figures(all, best)
	middle := p.draw(nil)
	plan.compare(all, regrets, &middle)
	plan.describe(&middle)
	plan.Keeping = middle.keeping(w.Months-1, plan.option)
	plan.Isolation = middle.isolation(w.Months-1, plan.option)
	plan.Storage = p.storage(&middle, plan.option)
	plan.TooMuch = middle.tooMuch(w.Months - 1)
	return plan, nil
}

func (p *planner) simulate(seed uint64, futures int) []outcome {
	r := rand.New(rand.NewPCG(seed, 95))
	all := make([]outcome, futures)
	for i := range all {
		f := p.draw(r)
		all[i] = p.outcome(&f)
	}
	return all
}

// choose returns the option with the least regret, on average over futures, and the regrets: what is paid in all
// months beyond the bill of the option that is best in that future. Those of options that can't be had in a future are
// infinite.
func choose(all []outcome) (best int, regrets []float64) {
	regrets = make([]float64, len(options()))
	for i := range all {
		for j, unfit := range all[i].unfit {
			if unfit {
				regrets[j] = math.Inf(1)
			}
		}
	}
	for i := range all {
		least := math.Inf(1)
		for j, d := range all[i].dollars {
			if !math.IsInf(regrets[j], 1) {
				least = min(least, d)
			}
		}
		for j, d := range all[i].dollars {
			regrets[j] += (d - least) / float64(len(all))
		}
	}
	least := slices.Min(regrets)
	return slices.IndexFunc(regrets, func(r float64) bool { return r <= least+fraction }), regrets
}

func named(name, unit string, basis Basis) Figure {
	return Figure{Name: name, Unit: unit, Basis: basis}
}

// over fills in a figure's percentiles over futures.
func over(all []outcome, figure Figure, of func(*outcome) float64) Figure {
	values := make([]float64, len(all))
	for i := range all {
		values[i] = of(&all[i])
	}
	slices.Sort(values)
	at := func(q float64) float64 { return values[int(math.Round(q*float64(len(values)-1)))] }
	figure.P5, figure.P50, figure.P95 = at(0.05), at(0.5), at(0.95)
	return figure
}

func (p *Plan) figures(all []outcome, best int) {
	add := func(name, unit string, basis Basis, of func(*load) float64) {
		p.Figures = append(p.Figures, over(all, named(name, unit, basis), func(o *outcome) float64 { return of(&o.first) }))
	}
	given, devices := Given, Given
	for _, f := range p.Workload.Fleets {
		if f.Sample != nil || f.Interval.Basis == Measured {
			given = Measured
		}
		if f.Devices.Basis == Measured {
			devices = Measured
		}
	}
	add("devices", "", devices, func(l *load) float64 { return l.devices })
	add("readings", "/s", given, func(l *load) float64 { return l.readings })
	add("values", "/s", given, func(l *load) float64 { return l.values })
	add("bytes per value in chunks", "B", Measured, func(l *load) float64 {
		return l.gb[chunks] * 1e9 / indexShare / (30.4 * aDay * l.values)
	})
	add("bytes of a chunk document", "B", Measured, func(l *load) float64 {
		return l.gb[chunks] * 1e9 / indexShare / (30.4 * aDay * l.documents)
	})
	add("chunks written", "/s", Measured, func(l *load) float64 { return l.documents })
	add("RU of a chunk", "RU", Measured, func(l *load) float64 { return l.each[chunks] })
	add("RU per million values", "RU", Measured, func(l *load) float64 { return l.write[chunks] / l.values * 1e6 })
	add("writes, mean", "RU/s", Measured, func(l *load) float64 { return l.write[chunks] })
	add("busiest minute over the mean", "", Assumed, func(l *load) float64 { return l.peak })
	add("queries from chunks", "RU/s", Measured, func(l *load) float64 { return l.query[chunks] })
	add("rollups written, if there are any", "RU/s", Assumed, func(l *load) float64 { return l.rollupWrite })
	add("storage of a month", "GB", Measured, func(l *load) float64 { return l.gb[chunks] })
	add("a document per reading: writes", "RU/s", Measured, func(l *load) float64 { return l.write[single] })
	add("a document per reading: storage of a month", "GB", Measured, func(l *load) float64 { return l.gb[single] })
	add("100 JSON readings a document: writes", "RU/s", Measured, func(l *load) float64 { return l.write[hundred] })
	add("100 JSON readings a document: storage of a month", "GB", Measured,
		func(l *load) float64 { return l.gb[hundred] })

	basis := [lines]Basis{queries: Measured, storage: Measured}
	last := p.Workload.Months - 1
	for i := range lines {
		p.Bill = append(p.Bill, over(all, named(lineNames[i], "$", cmp.Or(basis[i], Assumed)),
			func(o *outcome) float64 { return o.bills[best][last][i] }))
	}
	p.Bill = append(p.Bill, over(all, named("total", "$", Assumed),
		func(o *outcome) float64 { return o.bills[best][last].total() }))
	for m, name := range map[model]string{single: "a document per reading", hundred: "100 JSON readings a document"} {
		p.Others = append(p.Others, over(all, named(name, "$", Assumed),
			func(o *outcome) float64 { return o.others[m].total() }))
	}
	slices.SortFunc(p.Others, func(a, b Line) int { return len(b.Name) - len(a.Name) })
	for m := range p.Workload.Months {
		p.Months = append(p.Months, over(all, named(fmt.Sprintf("month %d", m+1), "$", Assumed),
			func(o *outcome) float64 { return o.bills[best][m].total() }))
	}
}

// describe fills in what follows from the middle future in its last month.
func (p *Plan) describe(f *future) {
	l := f.load(p.Workload.Months - 1)
	h := f.under(&l, p.Workload.Months-1, p.option, chunks)
	buys, gb, auto := h.buys(chunks, h.query), h.readings(), p.option.way == autoscale
	step := ru.Step(auto)
	p.Throughput = Bought{RUs: math.Max(math.Ceil(buys.most/step)*step, ru.Floor(gb[0], buys.most, auto)),
		Way: string(p.option.way), Containers: len(h.stored())}
	switch {
	case p.option.way == serverless:
		p.Throughput.RUs = ru.ServerlessRUs(int(math.Ceil(gb[0] / ru.PartitionGB)))
	case p.option.way.shared():
		p.Throughput.RUs = h.throughput()
	}
	p.Throughput.Partitions = max(ru.Partitions(p.Throughput.RUs, auto),
		int(math.Ceil(gb[0]/ru.PartitionGB)))
	budget := p.Throughput.RUs / float64(p.Throughput.Partitions)
	p.device = typical(f)
	p.Slots = sharding.DefaultSlots
	for p.Slots < sharding.MaxKeys && l.write[chunks]*l.peak*f.largest/float64(p.Slots) > budget {
		p.Slots *= 2
	}
	p.patterns(f, &l, budget)
	p.Rollups = l.rollupsPay(f, p.Workload.Months-1, p.option)
	p.triggers(f, &l)
}

func (p *Plan) patterns(f *future, l *load, budget float64) {
	keys := f.tenants * float64(p.Slots)
	write := Access{"W1", "store what devices report", "write", l.documents, l.documents * l.peak,
		"create of a chunk; for a late one a query for the tail of its chain before", l.each[chunks], keys,
		l.write[chunks] * l.peak * f.largest / float64(p.Slots), "", l.each[single], l.each[hundred]}
	write.Verdict = verdict(write.Hottest, budget)
	p.Patterns = []Access{write}
	for i, q := range f.queries {
		a := Access{ID: fmt.Sprintf("Q%d", i+1), Name: p.Workload.Queries[i].Name, Type: "read: " + string(q.pattern),
			Mean: q.rate, Peak: q.rate, RUs: l.queryEach[i][chunks], Keys: l.devices, Single: l.queryEach[i][single],
			Hundred: l.queryEach[i][hundred], Operation: "query of one key, tenantShard and device, by from and to"}
		a.Hottest = max(1/l.devices, 0.01) * q.rate * a.RUs
		if q.pattern == Panel {
			a.Keys = keys
			a.Operation = "query of each tenantShard of the tenant, a prefix of the key, by from and to"
			if a.Hottest = q.rate * a.RUs * f.largest / float64(p.Slots); p.option.rollups {
				a.RUs = q.rollups()
				a.Hottest = q.rate * a.RUs * f.largest / float64(p.Slots)
				a.Operation = "query of rollups of each tenantShard by metric, from and to, then of chunks stored since"
			}
		}
		a.Verdict = verdict(a.Hottest, budget)
		p.Patterns = append(p.Patterns, a)
	}
}

// verdict compares a key's load with the budget of a physical partition.
func verdict(hottest, budget float64) string {
	text := fmt.Sprintf("%s of the %s RU/s of a physical partition", figure(100*hottest/budget)+" %", figure(budget))
	switch {
	case hottest > budget:
		return text + ": hot; more slots for the tenant, or an account for it"
	case hottest > budget/2:
		return text + ": warm; the balancer gives the tenant more slots when it grows"
	}
	return text + ": not hot"
}

func (l *load) rollupsPay(f *future, month int, o option) string {
	rate, chunkRUs, rollupRUs := 0.0, 0.0, 0.0
	for i, q := range f.queries {
		if q.pattern == Panel {
			rate += q.rate
			chunkRUs += q.rate * l.queryEach[i][chunks]
			rollupRUs += q.rate * q.rollups()
		}
	}
	if rate == 0 {
		return "The workload has no panels, so rollups do not pay."
	}
	chunkRUs, rollupRUs = chunkRUs/rate, rollupRUs/rate
	if chunkRUs <= rollupRUs {
		return fmt.Sprintf("A panel takes %s RU from chunks and %s from rollups: at no rate do rollups pay.",
			figure(chunkRUs), figure(rollupRUs))
	}
	o.rollups = true
	idle := *l
	idle.panels, idle.rollupQuery = 0, 0
	with := f.under(&idle, month, o, chunks)
	o.rollups = false
	extra := with.bill().total() - f.under(&idle, month, o, chunks).bill().total()
	each := dollars(1/use, o.way == autoscale)
	if o.way == serverless {
		each = ru.Consumed(monthSeconds)
	}
	from := extra / (each * (chunkRUs - rollupRUs))
	return fmt.Sprintf("A panel takes %s RU from chunks and %s from rollups, and rollups cost $%s a month: they pay from "+
		"%s panels a second on. The workload has %s.", figure(chunkRUs), figure(rollupRUs), figure(extra), figure(from),
		figure(rate))
}

// tooMuch says that the workload fits a machine, and that another model costs less for it and from how many devices on
// it does not, by ways without a condition.
func (f *future) tooMuch(month int) (out []string) {
	cheaper := func(times float64) (model, float64, float64) {
		g := f.scaled(times)
		l := g.load(month)
		h := g.alone(month, way.conditional)
		own := h.bill().total()
		for m := single; m < models; m++ {
			b := g.other(&l, month, m)
			if sum := b.total(); sum < own {
				return m, sum, own
			}
		}
		return chunks, 0, own
	}
	l := f.load(month)
	if gb := l.gb[chunks] * f.retention / aMonth * f.regions; gb < fitsMachine && l.values < fitsValues {
		out = append(out, fmt.Sprintf("Cosmos DB is much for this: %s values a second and %s GB in all fit SQLite, "+
			"PostgreSQL or Prometheus on a machine that you have. It pays where you want no server, several regions, or a "+
			"fleet that grows.", figure(l.values), figure(gb)))
	}
	m, theirs, own := cheaper(1)
	if m == chunks {
		return out
	}
	text := fmt.Sprintf("Binnacle is too much for this: %s cost $%s a month in one container, Binnacle $%s, most of it "+
		"the least that its containers cost", modelNames[m], cents(theirs), cents(own))
	for times := 1.0; times <= 1e6; times *= 1.1 {
		if m, _, _ := cheaper(times); m == chunks {
			return append(out, fmt.Sprintf("%s. From about %s devices like these on Binnacle costs less.", text,
				rounded(times*l.devices)))
		}
	}
	return append(out, text+".")
}

// Below these a machine of its own holds a workload with ease.
const (
	fitsMachine = 10  // GB
	fitsValues  = 100 // a second
)

var modelNames = map[model]string{single: "documents of one reading", hundred: "documents of 100 JSON readings"}

// triggers applies the bounds of the modelling guide.
func (p *Plan) triggers(f *future, l *load) {
	records := l.readings * min(f.retention, float64(p.Workload.Months)*aMonth)
	yes := func(reached bool, then, otherwise string) string {
		if reached {
			return then
		}
		return otherwise
	}
	binned := l.readings >= 10_000 || records >= 100e6
	p.Triggers = []Trigger{
		{"10,000 writes a second", l.readings >= 10_000, yes(l.readings >= 10_000, "readings are binned, as the guide asks",
			"the guide does not ask for binning for this; chunks still cost less")},
		{"50,000 writes a second", l.readings >= 50_000, yes(l.readings >= 50_000, "the guide asks for several suffixes a "+
			"key: tenants have slots, and more of them as they grow", "no suffixes are needed beyond a tenant's slots")},
		{"100 million records", records >= 100e6, yes(records >= 100e6, "readings are binned, as the guide asks",
			"the guide does not ask for binning for this")},
		{"100 physical partitions", p.Throughput.Partitions >= 100, yes(p.Throughput.Partitions >= 100,
			"queries that visit all partitions are too dear: none of the patterns does", "queries by a prefix stay cheap")},
		{"a date key and a single container, for few and slow writes", !binned, yes(!binned,
			"by the guide a document per reading under a date key would do, and its bill stands beside this one; all "+
				"writes of a day would go to one key", "there are too many writes for a date key: a day's all go to one key")},
	}
}
