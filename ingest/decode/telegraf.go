package decode

import (
	"binnacle/internal/telemetry"
)

// isTelegraf reports whether the object that comes is a metric as Telegraf writes it in JSON: its first property is
// fields, and it has a name and a timestamp, but none of a message's values.
func (d *jsonReader) isTelegraf() bool {
	if d.flat || !d.scan.Begins("fields") {
		return false
	}
	begin := d.scan.At()
	defer d.scan.Seek(begin)
	named, timed, message := false, false, false
	err := d.scan.Object(func(name []byte) error {
		switch next := d.scan.Next(); string(name) {
		case "name":
			named = next == '"'
		case "timestamp":
			timed = true
		case "values":
			message = true
		}
		return d.scan.Skip(2)
	})
	return err == nil && named && timed && !message
}

// telegraf reads such a metric. What line protocol calls measurement is its name, and its tags are those of a line. The
// fields stand before the name that their metrics begin with, so they are read when all else is known.
func (d *jsonReader) telegraf(index int) error {
	m, fields := message{from: len(d.fields)}, 0
	d.pairs, d.others = d.pairs[:0], d.others[:0]
	err := d.scan.Object(func(name []byte) (err error) {
		switch string(name) {
		case "name":
			if d.scan.Next() != '"' {
				return faultf(Name, "name is not a string")
			}
			raw, err := d.scan.Str()
			if err != nil {
				return err
			}
			d.key = append(append(d.key[:0], raw...), '_')
			return nil
		case "tags":
			return d.telegrafTags(&m.Reading)
		case "timestamp":
			m.Time, m.timed, err = d.time()
			return err
		case "fields":
			fields, err = d.later()
			return err
		}
		return d.scan.Skip(2)
	})
	if err != nil {
		return err
	}
	if err := d.back(fields, d.telegrafFields); err != nil {
		return err
	}
	m.Labels = d.labelSets.get(d.pairs, &d.key)
	m.Tags = d.labelSets.get(d.others, &d.key)
	return d.finish(index, &m)
}

func (d *jsonReader) telegrafTags(r *telemetry.Reading) error {
	if d.scan.Next() != '{' {
		return faultf(Label, "tags is not an object")
	}
	d.pairs, d.others = d.pairs[:0], d.others[:0]
	return d.scan.Object(func(raw []byte) error {
		d.word = append(d.word[:0], raw...)
		if d.scan.Next() != '"' {
			return faultf(Label, "tags: the value of %.80q is not a string", d.word)
		}
		value, err := d.scan.Str()
		if err != nil {
			return err
		}
		if f := d.tag(r, d.word, value); f != nil {
			return f
		}
		return nil
	})
}

// telegrafFields reads the fields; d.key holds the name and an underscore.
func (d *jsonReader) telegrafFields() error {
	if d.scan.Next() != '{' {
		return faultf(Value, "fields is not an object")
	}
	prefix, place := len(d.key), 0
	return d.scan.Object(func(field []byte) error {
		metric := field
		if d.opts.Metric != "field" {
			d.key = append(d.key[:prefix], field...)
			metric = d.key
		}
		name, err := d.metric(place, metric)
		if err != nil {
			return err
		}
		place++
		v, err := d.value(name)
		if err != nil {
			return err
		}
		d.fields = append(d.fields, telemetry.Field{Metric: name, Value: v})
		return nil
	})
}
