package decode

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/telemetry"
)

// pick returns the place of the pair with the first of names that is there, -1 if none is.
func pick(pairs []telemetry.Label, names []string) int {
	for _, n := range names {
		i := slices.IndexFunc(pairs, func(p telemetry.Label) bool { return p.Name == n })
		if i >= 0 && pairs[i].Value != "" {
			return i
		}
	}
	return -1
}

// repeated returns a name that pairs have more than once, empty if no name repeats.
func (d *Decoder) repeated(pairs []telemetry.Label) string {
	d.others = append(d.others[:0], pairs...)
	slices.SortFunc(d.others, func(a, b telemetry.Label) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(d.others); i++ {
		if d.others[i].Name == d.others[i-1].Name {
			return d.others[i].Name
		}
	}
	return ""
}

// recordTime returns the event time of an element without a time; what describes the element.
func (d *Decoder) recordTime(what string) (int64, *fault) {
	if d.origin.now < 0 {
		return 0, faultf(Time, "%s has no time, and neither has the Kafka record", what)
	}
	return d.origin.now, nil
}

// origin is what options and envelope say of readings that have no names or time of their own.
type origin struct {
	tenant, device string
	enveloped      bool   // some of it comes from the record, not from the options
	nested         bool   // the payload is in an envelope of JSON
	module         string // the device's module; a label of all readings
	bound          bool   // the device was authenticated: no other may be named
	now            int64  // event time of a reading without one; below 0 it is not known
	timed          bool   // now may stand in for the ts of a message, too
}

// resolveOrigin gives a reading without tenant or device the origin's, and checks that it may name its own.
func (d *Decoder) resolveOrigin(r *telemetry.Reading, what string) *fault {
	if r.Tenant == "" {
		r.Tenant = d.origin.tenant
	}
	if f := d.checkBound(r.Tenant, what); f != nil {
		return f
	}
	if d.origin.bound && r.Device != "" && r.Device != d.origin.device {
		return faultf(Device, "%s names the device %q, but %q has sent it", what, r.Device, d.origin.device)
	}
	if r.Device == "" {
		r.Device = d.origin.device
	}
	switch {
	case r.Tenant == "":
		return faultf(Tenant, "%s has no tenant", what)
	case r.Device == "":
		return faultf(Device, "%s has no device", what)
	}
	return nil
}

// checkBound reports what is wrong with a tenant that a message names in a topic that belongs to one.
func (d *Decoder) checkBound(tenant, what string) *fault {
	if tenant = cmp.Or(d.opts.Set.Tenant, tenant); d.opts.Bound == "" || tenant == "" || tenant == d.opts.Bound {
		return nil
	}
	return faultf(OtherTenant, "%s names the tenant %q, but the topic belongs to %q", what, tenant, d.opts.Bound)
}

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

// Header is one header of a Kafka record, the same type as in package kafka.
type Header = struct {
	Key   string
	Value []byte
}

// RecordOf returns a record to decode. Of several headers content-type the first counts.
func RecordOf(value []byte, headers []Header, timestamp int64) Record {
	return Record{Value: value, ContentType: FirstHeader(headers, "content-type"), Headers: headers, Timestamp: timestamp}
}

// FirstHeader returns the value of the first header with a name, empty for a missing one.
func FirstHeader(headers []Header, name string) string {
	for i := range headers {
		if headers[i].Key == name {
			return string(headers[i].Value)
		}
	}
	return ""
}

// header returns the text of the last header of a name, in any case; empty for a missing one.
func header(headers []Header, name string) string { return amqpText(rawHeader(headers, name)) }

func rawHeader(headers []Header, name string) []byte {
	for i := len(headers) - 1; i >= 0; i-- {
		if k := headers[i].Key; len(k) == len(name) && strings.EqualFold(k, name) {
			return headers[i].Value
		}
	}
	return nil
}

// amqpText returns the text of a property that came by AMQP: Event Hubs passes such properties to Kafka as AMQP
// encodes them. Text in none of these encodings is returned as it is.
func amqpText(b []byte) string {
	if len(b) < 2 {
		return string(b)
	}
	switch b[0] {
	case 0xA1, 0xA3: // string and symbol of up to 255 bytes
		if len(b) == 2+int(b[1]) {
			return string(b[2:])
		}
	case 0xB1, 0xB3: // longer ones
		if len(b) >= 5 && uint64(len(b)) == 5+uint64(binary.BigEndian.Uint32(b[1:])) {
			return string(b[5:])
		}
	case 0x83, 0x81: // timestamp in milliseconds, long
		if len(b) == 9 {
			return strconv.FormatInt(int64(binary.BigEndian.Uint64(b[1:])), 10)
		}
	case 0x55: // a long of one byte
		if len(b) == 2 {
			return strconv.Itoa(int(int8(b[1])))
		}
	}
	return string(b)
}
