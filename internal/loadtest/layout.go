package loadtest

import (
	"context"

	"binnacle/internal/balance"
)

// Layout is one way to keep readings in Cosmos DB.
type Layout string

// The layouts that are compared.
const (
	ByDate   Layout = "date"          // a document per reading; partition key /date
	BySuffix Layout = "date-suffix"   // a document per reading; partition key /dateSuffix: the date and one of 15 suffixes
	ByDevice Layout = "tenant-device" // a document per reading; hierarchical partition key /tenant, /device
	Device   Layout = "device"        // a document per reading; partition key /device
	Hundred  Layout = "hundred"       // 100 readings of a device in a document; hierarchical key /tenant, /device
	Binnacle Layout = "binnacle"      // chunks under slot-placed keys, four a tenant
	// Balanced is Binnacle after the balancer has seen a day of the load.
	Balanced Layout = "binnacle-balanced"
)

// layouts returns what a scenario compares.
func (c Config) layouts(s Scenario) []Layout {
	switch {
	case len(c.Layouts) > 0:
		return c.Layouts
	case s == Uniform || s == Whale:
		return []Layout{ByDate, BySuffix, ByDevice, Device, Hundred, Binnacle, Balanced}
	}
	return []Layout{ByDevice, Device, Binnacle, Balanced}
}

// chunked reports whether a layout is Binnacle's.
func (l Layout) chunked() bool { return l == Binnacle || l == Balanced }

// about says what a layout has a document for.
func (l Layout) about() string {
	switch l {
	case ByDate:
		return "reading, by date"
	case BySuffix:
		return "reading, by date and suffix"
	case ByDevice:
		return "reading, by tenant, device"
	case Device:
		return "reading, by device"
	case Hundred:
		return "100 readings, by tenant, device"
	case Balanced:
		return "chunk: Binnacle, balanced"
	}
	return "chunk: Binnacle"
}

// pass puts the load on one layout once.
type pass struct {
	cfg      Config
	scenario Scenario
	layout   Layout
	metrics  int // in a reading
	rus      int // what the container gets, in RU/s; 0: as much as it asks for
	tick     func()
	traced   bool

	placed []balance.Change // what the balancer has decided, for Balanced
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
		if err := a.place(ctx, p.placed); err != nil {
			return totals{}, err
		}
		return p.chunks(ctx, a)
	}
	return p.documents(ctx, a)
}
