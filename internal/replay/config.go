package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"binnacle/internal/telemetry"
)

// Config says what is published, and where to. Errors about it name the flags of `binnacle replay`.
type Config struct {
	File   string // path; a name that ends in .gz is gunzipped
	Format string // csv, ndjson or lp; empty: by the file's name, else by its first lines

	Tenant       string // --tenant: for readings whose file does not name one
	Device       string // --device: likewise
	DeviceColumn string // --device-column: the CSV column that holds the device id
	TimeColumn   string // --time-column: the CSV column that holds the time; empty: the first one so named

	LPDeviceTag string   // --lp-device-tag
	LPTenantTag string   // --lp-tenant-tag
	LPTags      []string // --lp-tags: tags that describe the device; all others are labels
	BareField   bool     // --lp-metric field: metric = field; else measurement_field

	ShiftToNow bool    // --shift-to now: add to every time what moves the file's greatest one to now
	Rate       float64 // --rate: readings a second; 0: as fast as it goes

	// Grant makes --backfill: it gets the leave for a tenant's readings of a range of event times, whose id goes out with each
	// of their records. nil: there is none.
	Grant func(ctx context.Context, tenant string, r telemetry.Range) (id string, err error)

	Kafka string // addresses host:port, separated by commas
	Topic string

	Progress io.Writer        // a terminal that shows a progress bar; nil: none
	Now      func() time.Time // nil: time.Now
}

// Validate reports every fault that can be seen without the file.
func (c Config) Validate() error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.File == "" {
		add("no file is named")
	}
	if c.Format != "" {
		if _, err := parseFormat(c.Format); err != nil {
			faults = append(faults, err)
		}
	}
	if c.Tenant != "" {
		if err := telemetry.CheckTenant(c.Tenant); err != nil {
			add("--tenant: %w", err)
		}
	}
	if c.Device != "" {
		if err := telemetry.CheckDevice(c.Device); err != nil {
			add("--device: %w", err)
		}
	}
	if !(c.Rate >= 0) {
		add("--rate %v is not 0 or more", c.Rate)
	}
	if c.Kafka == "" {
		add("--kafka: no address")
	}
	if c.Topic == "" {
		add("--topic: no topic")
	}
	return errors.Join(faults...)
}

// validateFor reports what a format needs and the flags do not give.
func (c Config) validateFor(f Format) error {
	var faults []error
	add := func(text string) { faults = append(faults, fmt.Errorf("%s: a %s file needs %s", c.File, f, text)) }
	switch f {
	case CSV:
		if c.Tenant == "" {
			add("--tenant")
		}
		if c.Device == "" && c.DeviceColumn == "" {
			add("--device or --device-column")
		}
	case LineProtocol:
		if c.Tenant == "" && c.LPTenantTag == "" {
			add("--tenant or --lp-tenant-tag")
		}
		if c.Device == "" && c.LPDeviceTag == "" {
			add("--device or --lp-device-tag")
		}
	}
	return errors.Join(faults...)
}
