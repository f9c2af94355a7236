package fleet

import (
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
)

// tagsEvery is the time after which a device repeats its tags, for readers that missed them.
const tagsEvery = 10 * time.Minute

// messageBytes is a little more than a message of a truck has without tags.
const messageBytes = 320

// device is a truck that belongs to a tenant and sends messages.
type device struct {
	tenant string
	truck  *Truck
	key    []byte
	tagged time.Time // the last report with tags, zero before the first
}

func newDevice(tenant string, truck *Truck) *device {
	return &device{tenant: tenant, truck: truck, key: []byte(tenant + "/" + truck.ID())}
}

// report returns the message of one instant. Its time is the scheduled one, not that of sending, so that seed and
// schedule alone decide what is reported.
func (d *device) report(at time.Time) Record {
	reading := telemetry.Reading{
		Tenant: d.tenant, Device: d.truck.ID(), Time: at.UnixMilli(), Fields: d.truck.Next(at),
	}
	if d.tagged.IsZero() || at.Sub(d.tagged) >= tagsEvery {
		d.tagged = at
		reading.Tags = d.truck.Tags()
	}
	return Record{Key: d.key, Value: decode.AppendJSON(make([]byte, 0, messageBytes), reading)}
}
