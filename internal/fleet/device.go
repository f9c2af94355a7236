package fleet

import (
	"encoding/json"
	"strconv"
	"time"

	"binnacle/internal/telemetry"
)

// tagsEvery is the time after which a device repeats its tags, so that who missed them gets them.
const tagsEvery = 10 * time.Minute

// device is a truck and what its messages have in common.
type device struct {
	truck  *Truck
	key    []byte
	head   []byte    // the message up to the time
	tags   []byte    // the member "tags" and what comes before it
	tagged time.Time // the last report with tags, zero before the first
}

func newDevice(tenant string, truck *Truck) *device {
	tags := append([]byte(`,"tags":`), quote(truck.Tags().Map())...)
	head := append([]byte(`{"tenant":`), quote(tenant)...)
	head = append(append(head, `,"device":`...), quote(truck.ID())...)
	return &device{
		truck: truck,
		key:   []byte(tenant + "/" + truck.ID()),
		head:  append(head, `,"ts":`...),
		tags:  tags,
	}
}

// report is the message of one instant. Its time is the scheduled one, not that of sending, so that
// nothing but seed and schedule decides what is reported.
func (d *device) report(at time.Time) Record {
	fields := d.truck.Next(at)
	value := make([]byte, 0, 512)
	value = append(value, d.head...)
	value = strconv.AppendInt(value, at.UnixMilli(), 10)
	value = append(value, `,"values":{`...)
	for i, f := range fields {
		if i > 0 {
			value = append(value, ',')
		}
		value = append(append(value, '"'), f.Metric...)
		value = appendNumber(append(value, `":`...), f.Value)
	}
	value = append(value, '}')
	if d.tagged.IsZero() || at.Sub(d.tagged) >= tagsEvery {
		d.tagged = at
		value = append(value, d.tags...)
	}
	return Record{Key: d.key, Value: append(value, '}')}
}

// appendNumber writes a float so that it reads back to the same bits; a truck has none without digits.
func appendNumber(b []byte, v telemetry.Value) []byte {
	if v.Kind() == telemetry.Int {
		return strconv.AppendInt(b, v.Int(), 10)
	}
	return strconv.AppendFloat(b, v.Float(), 'g', -1, 64)
}

// quote is JSON of strings, which can't fail.
func quote(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
