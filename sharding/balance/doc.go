// Package balance decides which first-level keys tenants write to, so that physical partitions are loaded evenly: from
// the ranges of a container, yesterday's load by device and key, and the epochs that are stored, it makes the epochs of
// tomorrow, each with its reason and figures.
//
// It is a pure function: no store, no clock, no goroutine. docs/reference/cost.md has the rule and what it
// reaches.
package balance

import (
	"binnacle/internal/telemetry"
	"binnacle/sharding"
	"binnacle/sharding/epk"
)

// Input is one container and the tenants that will write to it on a day.
type Input struct {
	// Day is the day that the epochs begin on.
	Day      telemetry.Day
	Measured telemetry.Day // the day of the load
	Ranges   []epk.Range   // physical partitions of the container of Day
	Tenants  []Tenant
	Full     []FullKey
}

// span returns the span of the container of a day: the same for all tenants.
func (in Input) span(day telemetry.Day) sharding.Span {
	if len(in.Tenants) == 0 {
		return sharding.Month.Of(day)
	}
	return in.Tenants[0].Placement.SpanOn(day)
}

// Tenant is one tenant: where it is placed, and its load on the measured day.
type Tenant struct {
	Name      string
	Placement *sharding.Placement
	Pin       sharding.Pin
	// Devices are the RU of chunk writes by device, of the heaviest or of all. None: only Keys are known.
	Devices []Device
	// Rest is the RU of the other devices: a device is in bucket sharding.GroupOf(device, len(Rest)).
	Rest []float64
	// Keys are the RU by first-level key.
	Keys []Key
	// Days are the RU of the measured day and those before it, the newest first; with eight of them weekends are
	// foreseen.
	Days []float64
	// Fan is what one key more costs a day: readers of all devices visit each key, and each has its manifests.
	Fan float64
}

// Device is the load of one device.
type Device struct {
	Name  string
	RUs   float64
	Usual float64 // mean of the last seven days, 0 if unknown: by it the tenant's load is divided
	Peak  float64 // the largest of them: it decides whether the device is spread
}

// Key is the load of one first-level key.
type Key struct {
	Shard  string
	Writes float64 // RU of chunks
	Others float64 // RU of queries, rollups, look-ups and backfills
}

// FullKey is a full key, first level and device, that may pass the limit of a logical partition.
type FullKey struct {
	Tenant, Device string
	Bytes          float64 // stored
	Growth         float64 // bytes a day
}

// Decision is what should be changed for a day, and what that is expected to gain.
type Decision struct {
	Day           telemetry.Day          `json:"day"`
	Partitions    int                    `json:"partitions"`
	Load          float64                `json:"-"` // RU of the day, as forecast
	Before, After float64                `json:"-"` // hottest physical partition over mean, as forecast
	Changes       []sharding.EpochChange `json:"changes"`
}

// Bounds of the rule. docs/reference/cost.md says where they come from.
const (
	mostTrigger  = 1.10 // hottest over mean of the forecast above which groups move, until half of it is gone
	leastTrigger = 1.05 // where many devices make the load, so that the forecast is good
	// gainPart is the part of the mean that a further tenant's change must gain.
	gainPart = 0.02

	// smallShare is the share of the load below which a tenant keeps few keys.
	smallShare = 0.01
	// midShare is the share from which on a tenant has a key for each physical partition.
	midShare   = 0.10
	halfShare  = 0.50 // above which it has two
	fewKeys    = sharding.DefaultSlots
	mostKeys   = 4 // for each physical partition
	growth     = 10.0
	growthRoom = 0.3
	// keyRoom times its share is what a tenant gets keys for when it gets others.
	keyRoom = 1.3

	// spreadPart is the part of a partition's share that one key of a spread device has at most.
	spreadPart = 0.10
	// spreadAbove is the part of a partition's share above which a device is spread although the load is even.
	spreadAbove = 0.20
	shrinkBelow = 1.0 / 16

	// fullBytes is the size of a full key: half of the service's limit.
	fullBytes = 10e9
)
