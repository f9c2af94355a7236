package loadtest

import (
	"context"
	"strconv"
	"time"

	"binnacle/sharding"
)

// Layout is one way to keep readings in Cosmos DB.
type Layout string

// The layouts that are compared.
const (
	ByDate   Layout = "date"
	ByDevice Layout = "tenant-device"
	Device   Layout = "device"
	KeyHash  Layout = "key-hash"
	Hundred  Layout = "hundred"  // 100 readings of a device in a document
	Binnacle Layout = "binnacle" // chunks under slot-placed keys, four a tenant
	// Balanced is Binnacle after the balancer has seen a day of the load.
	Balanced Layout = "binnacle-balanced"
)

// kind is what a layout has a document for, and how it is keyed.
type kind struct {
	about string
	key   []string // paths
	// keyOf returns the key of a reading; nil: its tenant and device.
	keyOf func(k keyed) []string
}

// allLayouts returns the layouts in the order in which they are shown.
func allLayouts() []Layout {
	return []Layout{ByDate, ByDevice, Device, KeyHash, Hundred, Binnacle, Balanced}
}

func (c Config) layouts(s Scenario) []Layout {
	switch {
	case len(c.Layouts) > 0:
		return c.Layouts
	case s == Uniform || s == Whale:
		return allLayouts()
	case s == MonthRoll:
		return []Layout{ByDate, ByDevice, Binnacle, Balanced}
	}
	return []Layout{ByDevice, Device, Binnacle, Balanced}
}

func (l Layout) chunked() bool { return l == Binnacle || l == Balanced }

// sampled reports whether a layout has a document per reading. One that keeps nothing back does the same in every
// interval of the fleet, so a sample of the window is as good as the whole; a bin takes its time to fill.
func (l Layout) sampled() bool { return !l.chunked() && l != Hundred }

// about names the unit that a layout stores in one document.
func (l Layout) about() string { return l.kind().about }

// pass puts the load on one layout once.
type pass struct {
	cfg      Config
	scenario Scenario
	layout   Layout
	// rus is the RU/s of each container; 0: as much as the container asks for.
	rus int

	// placed lists the balancer's decisions, for Balanced.
	placed []sharding.EpochChange
}

// unlimitedRUs is the throughput of a container without budgets.
const unlimitedRUs = 400

func (p pass) throughput() int {
	if p.rus == 0 {
		return unlimitedRUs
	}
	return p.rus
}

func (p pass) run(ctx context.Context) (totals, error) {
	a, err := open(ctx, p.cfg, p.rus == 0)
	if err != nil {
		return totals{}, err
	}
	defer a.close()
	if p.layout.chunked() {
		if err := a.place(ctx, p); err != nil {
			return totals{}, err
		}
		return p.write(ctx, a)
	}
	return p.documents(ctx, a)
}

// keyed is what a key is made of.
type keyed struct {
	tenant, device string
	at             time.Time
}

// keySuffixes is how many values the suffix of KeyHash has, as in the guidance's example key_hash%20.
const keySuffixes = 20

func (l Layout) kind() kind {
	switch l {
	case ByDate:
		return kind{"reading, by date", []string{"/date"},
			func(k keyed) []string { return []string{k.at.Format(time.DateOnly)} }}
	case ByDevice:
		return kind{"reading, by tenant, device", []string{"/tenant", "/device"}, nil}
	case Device:
		return kind{"reading, by device", []string{"/device"}, func(k keyed) []string { return []string{k.device} }}
	case KeyHash:
		return kind{"reading, by tenant, hash%20", []string{"/tenantHash"}, func(k keyed) []string {
			return []string{k.tenant + "_" + strconv.Itoa(sharding.GroupOf(k.device, keySuffixes))}
		}}
	case Hundred:
		return kind{"100 readings, by tenant, device", []string{"/tenant", "/device"}, nil}
	case Balanced:
		return kind{"chunk: Binnacle, balanced", []string{"/tenantShard", "/device"}, nil}
	}
	return kind{"chunk: Binnacle", []string{"/tenantShard", "/device"}, nil}
}

func (l Layout) keyOf(k keyed) []string {
	if of := l.kind().keyOf; of != nil {
		return of(k)
	}
	return []string{k.tenant, k.device}
}
