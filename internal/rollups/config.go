package rollups

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/erasure"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/tenant"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is what a Writer needs. Chunks, Views and Tenants have no default. Its tags are package settings's.
type Config struct {
	Chunks  store.Reader                               `kong:"-"`
	Rollups store.RollupWriter                         `kong:"-"`
	Tenants func() []tenant.Tenant                     `kong:"-"`
	Lease   Lease                                      `kong:"-"` // nil: no other process writes
	Logger  *slog.Logger                               `kong:"-"` // none
	Metrics prometheus.Registerer                      `kong:"-"` // none
	Now     func() time.Time                           `kong:"-"` // time.Now
	Sleep   func(context.Context, time.Duration) error `kong:"-"` // a timer
	// Name returns a new name for a batch, by default a random one.
	Name func() string `kong:"-"`

	// Erasures returns the orders of a tenant as of a few seconds ago at most; nil: there are none.
	Erasures func(ctx context.Context, tenant string) (erasure.List, error) `kong:"-"`

	Hold time.Duration `name:"rollup-hold" help:"Longest time from the end of an hour until its chunks are stored: --hold of the ingesters. Default: that of this process, else 12h." placeholder:"DURATION"`
	// Margin is by how much clocks of the service may differ or step back, and replicas lag (rule V3).
	Margin    time.Duration `kong:"-" default:"5m"`
	RUs       float64       `name:"rollup-budget" help:"Request units a second for making rollups, on average. 0 is no limit." default:"200"`
	Every     time.Duration `name:"rollup-every" help:"Time between checks for hours that can be built." default:"1m"`
	LateEvery time.Duration `name:"rollup-late-every" help:"Time between checks of yesterday for late chunks. A day that is N days old is checked N times less often." default:"10m"`
	Days      int           `name:"rollup-days" help:"Days back from today for which rollups are made and corrected. Older days: binnacle rollups rebuild." default:"7"`

	MaxMetrics int      `name:"rollup-metrics" help:"Most metrics of a tenant that get rollups: those of --rollup-first, then by name. Queries read the others from chunks." default:"64"`
	First      []string `name:"rollup-first" help:"Metrics that get rollups first where there are more than --rollup-metrics." placeholder:"METRIC"`
	Families   string   `name:"rollup-families" help:"Aggregates that rollups have of a bucket: L count and last, F first and counter resets (for rate), S sums, M minimum and maximum. Default: LFSM; with a hold of three hours or more LF of minutes and LFSM of half hours, L where a key has fewer than 64 devices." placeholder:"LFSM"`
	Without    []string `name:"rollup-without" help:"Tenants that get no rollups." placeholder:"TENANT"`

	// RebuildDevices is the number of devices, at least a quarter of all, from which their hours are rebuilt instead of
	// corrected one by one, which costs more. The rebuild waits until no more late chunks come.
	RebuildDevices int `kong:"-" default:"16"`
	// MaxBytes bounds the chunks that are held in memory at a time.
	MaxBytes int64 `kong:"-" default:"256" type:"mib"`
}

// Lease keeps two writers from one key; *control.Leases is one.
type Lease interface {
	Take(ctx context.Context, name string, length time.Duration) (held bool, err error)
}

// leaseLength is how long a round may take until another writer begins one.
const leaseLength = 30 * time.Minute

// Validate reports every fault of the settings.
func (c Config) Validate() error {
	var faults settings.Faults
	faults.Check(c.Hold >= 0, "--rollup-hold %s is negative", c.Hold)
	faults.Check(c.RUs >= 0, "--rollup-budget %g is negative", c.RUs)
	faults.Check(c.Every >= 0 && c.LateEvery >= 0, "--rollup-every and --rollup-late-every are positive")
	faults.Check(c.Days >= 0 && c.MaxMetrics >= 0, "--rollup-days and --rollup-metrics are not negative")
	_, err := rollup.ParseFamilies(cmp.Or(c.Families, "L"))
	faults.Check(err == nil, "--rollup-families %q: letters of LFSM in that order, L at least", c.Families)
	return faults.Err()
}

func (c *Config) defaults() {
	rus := c.RUs // 0 is no limit
	settings.Defaults(c)
	if c.RUs = rus; c.Sleep == nil {
		c.Sleep = retry.Pause
	}
	if c.Name == nil {
		c.Name = randomName
	}
	if c.Families == "" && hoursPerBlock(cmp.Or(c.Hold, 12*time.Hour)) < rollup.HoursOfDay {
		c.Families = rollup.AllFamilies.String()
	}
}

// fewDevices is below how many devices of a key each family takes a document of its own that is nearly empty.
const fewDevices = 64

// familiesOn returns the families that rollups hold on a grid for so many devices of a key. Those that are not set are
// all with a short hold: they cost a tenth of its chunks. Of full chunks L costs 18 %, F 4 %, S and M 30 % each on
// minutes, and together 4 % on half hours, which spare panels of a month its chunks (docs/operate/rollups.md).
func (w *Writer) familiesOn(g rollup.Grid, devices int) rollup.Families {
	switch {
	case w.families != nil:
		return w.families
	case devices < fewDevices:
		return rollup.Families{rollup.Last}
	case g == rollup.Minute:
		return rollup.Families{rollup.Last, rollup.First}
	}
	return rollup.AllFamilies
}

// randomName returns 60 bits by chance.
func randomName() string { return strings.ToLower(rand.Text()[:12]) }

// hoursPerBlock returns how many hours are built at once. A chunk has the readings of up to a hold, and building an
// hour reads the whole of it: with blocks four times as long it is read once and a quarter on average. From three hours
// on that is the whole day, which a hold of half a day means anyway.
func hoursPerBlock(hold time.Duration) int {
	for _, n := range []int{1, 2, 3, 4, 6, 8, 12} {
		if time.Duration(n)*time.Hour >= 4*hold {
			return n
		}
	}
	return rollup.HoursOfDay
}
