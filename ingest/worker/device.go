package worker

import (
	"binnacle/binning"
	"binnacle/ingest/catalogupdates"
	"binnacle/internal/telemetry"
)

// device is what a Worker knows of one device, on all days: its chains, how dense its chunks are, and what the catalog
// lacks of it.
type device struct {
	catalogupdates.Device
	tenant  *tenant
	slot    int32    // among its tenant's
	counted int32    // bytes that the Worker has of it
	chains  []*chain // under the Worker's lock
	sizer   binning.Sizer

	carried      span  // times that a record of the journal has
	carriedAt    int64 // its offset in the journal, noOffset for none
	carriedPlace int32
	owed         *owedTimes // nil: all that is stored is in the catalog or in a record
}

// chain returns the device's chain of a day, nil if there is none.
func (d *device) chain(day telemetry.Day) *chain {
	for _, c := range d.chains {
		if c.day == day {
			return c
		}
	}
	return nil
}

const noOffset = -1

// What a device and a chain take, in bytes, without what they point to: the structs, and their places in maps and
// lists.
const (
	deviceBytes = 400
	chainBytes  = 494
)

// bytes returns how much memory the device takes without its chains.
func (d *device) bytes() int { return deviceBytes + (len(d.ID)+15)&^15 + d.Device.Bytes() }
