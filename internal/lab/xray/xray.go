// Package xray predicts what the partition key of a container does to its physical partitions, and what other keys
// would do: for a container that Binnacle did not make. It samples documents of every physical partition, changes
// nothing, and places keys by the service's own hash. docs/reference/partitioning.md has the method.
package xray

import (
	"context"
	"io"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"
	"binnacle/internal/settings"
)

// Config is what an X-ray runs with.
type Config struct {
	Database  string `help:"Database of the container." required:""`
	Container string `help:"Container to look into." required:""`

	MaxRUs     float64 `name:"max-rus" help:"Most RU that the sample may be charged." default:"500" placeholder:"RU"`
	DevicePath string  `help:"Path of the property that names the device, or what else reports, such as /deviceId. Default: found by its name." placeholder:"PATH"`
	TenantPath string  `help:"Path of the property that names the tenant or customer, such as /tenantId. Default: found by its name, none if there is none." placeholder:"PATH"`
	Days       int     `help:"Number of coming days whose keys are placed, where keys contain the time." default:"30"`

	DeviceReads float64 `help:"Reads of a device's day per second, which the price includes." default:"0.1" placeholder:"READS"`
	TenantReads float64 `help:"Reads of a day of all devices of a tenant per second, which the price includes." default:"0.01" placeholder:"READS"`

	Model ru.Model         `kong:"-"`
	Now   func() time.Time `kong:"-"`
	// Progress receives a description of the reads to come; nil: none.
	Progress io.Writer `kong:"-"`
}

// Bounds of what a caller may ask for.
const (
	leastRUs = 20
	mostDays = 366
)

// Validate returns every fault of the settings.
func (c Config) Validate() error {
	var faults settings.Faults
	for flag, name := range map[string]string{"--database": c.Database, "--container": c.Container} {
		faults.Check(name != "", "%s is missing", flag)
		faults.Check(!strings.ContainsAny(name, `/\?#`), "%s %q: a name has none of / \\ ? #", flag, name)
	}
	faults.Check(c.MaxRUs >= leastRUs, "--max-rus %g: at least %d are needed", c.MaxRUs, leastRUs)
	faults.Check(c.Days >= 1 && c.Days <= mostDays, "--days %d: 1 to %d are allowed", c.Days, mostDays)
	faults.Check(c.DeviceReads >= 0, "--device-reads %g: 0 or more are allowed", c.DeviceReads)
	faults.Check(c.TenantReads >= 0, "--tenant-reads %g: 0 or more are allowed", c.TenantReads)
	for flag, path := range map[string]string{"--device-path": c.DevicePath, "--tenant-path": c.TenantPath} {
		faults.Check(path == "" || strings.HasPrefix(path, "/") && path != "/", "%s %q: a path is /NAME or /NAME/NAME", flag,
			path)
	}
	faults.Check(c.DevicePath == "" || c.DevicePath != c.TenantPath, "--device-path and --tenant-path are the same")
	return faults.Err()
}

// Run samples the container and judges its key and the alternatives.
func Run(ctx context.Context, cfg Config, account *cosmos.Client) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &sampler{cfg: cfg, source: account.Foreign(cfg.Database, cfg.Container)}
	if err := s.read(ctx); err != nil {
		return Report{}, err
	}
	f, err := s.fleet()
	if err != nil {
		return Report{}, err
	}
	return s.report(f), nil
}
