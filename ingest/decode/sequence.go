package decode

import (
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/telemetry"
)

// numbered adds the number in a property of a message to its fields, which begin at the given place. A text that is
// no integer is ignored: a reading is not refused for it.
func (d *Decoder) numbered(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || d.fields.count == 0 && !d.fields.nulls {
		return nil
	}
	if d.fields.has(d.opts.Sequence) {
		return nil // it is a value of the message, too
	}
	metric, err := d.metrics.get([]byte(d.opts.Sequence))
	if err != nil {
		return faultf(Name, "%v", err)
	}
	d.put(metric, telemetry.IntValue(n))
	return nil
}

// numberAll gives the number in a record's header to all its readings without a number.
func (d *Decoder) numberAll(headers []Header) {
	n, err := strconv.ParseInt(strings.TrimSpace(header(headers, d.opts.Sequence)), 10, 64)
	if err != nil {
		return
	}
	metric, err := d.metrics.get([]byte(d.opts.Sequence))
	if err != nil {
		return
	}
	for i := range d.out.Readings {
		r := &d.out.Readings[i]
		at, there := slices.BinarySearchFunc(r.Fields, metric, func(f telemetry.Field, metric string) int {
			return strings.Compare(f.Metric, metric)
		})
		if !there {
			if d.made.add(fieldBytes * (len(r.Fields) + 1)); d.made.over {
				return
			}
			r.Fields = slices.Insert(slices.Clone(r.Fields), at,
				telemetry.Field{Metric: metric, Value: telemetry.IntValue(n)})
		}
	}
}
