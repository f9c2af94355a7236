package bins

import (
	"binnacle/binning"
	"binnacle/ingest/admit"
	"binnacle/ingest/catalogupdates"
	"binnacle/internal/telemetry"
)

// Device is what a Worker knows of one device, on all days: its chains, how dense its chunks are, and what the catalog
// lacks of it.
type Device struct {
	catalogupdates.Device
	slot    int32  // among its tenant's
	counted int32  // bytes that the Worker has of it
	Chains  *Chain // the latest one, and the others by Next, under the Worker's lock
	Sizer   binning.Sizer

	carried      Span  // times that a record of the journal has
	carriedAt    int64 // its offset in the journal, noOffset for none
	carriedPlace int32
	owed         *OwedTimes // nil: all that is stored is in the catalog or in a record
}

// chain returns the device's chain of a day, nil for an unknown one.
func (d *Device) chain(day telemetry.Day) *Chain {
	for c := d.Chains; c != nil; c = c.Next {
		if c.Day == day {
			return c
		}
	}
	return nil
}

// remove takes a chain out of the device's list.
func (d *Device) remove(c *Chain) {
	at := &d.Chains
	for *at != c {
		at = &(*at).Next
	}
	*at = c.Next
	d.InUse = d.Chains != nil
}

const noOffset = -1

// What a device, a chain and its open part take, in bytes, without what they point to: the structs, and their places
// in maps and lists.
const (
	deviceBytes = 300
	ChainBytes  = 112
	openBytes   = 430
)

// Bytes returns how much memory the device takes without its chains.
func (d *Device) Bytes() int { return deviceBytes + (len(d.ID)+15)&^15 + d.Device.Bytes() }

// tenant is the devices of one tenant. It changes under the Worker's lock.
type tenant struct {
	catalogupdates.Tenant
	ByID map[string]*Device
	// Devices is in the order in which they came, with nil for devices that are gone: a head walks it in pieces.
	Devices []*Device
	gone    int

	last *Device // the device that was looked for last
}

// logState is how far the log is known and read.
type Log struct {
	admit.Log
	StoredBelow int64 // below it all was stored or refused when the partition came back
	Suspect     int64 // highest tail read from the store: it must lie below the log's end (W9)
}

// Gone is a device that was forgotten, and with all its tenant, which has no other one.
type Gone struct {
	Tenant, Device string
	All            bool
}
