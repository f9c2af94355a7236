package decode

import (
	"errors"
	"strings"
	"unicode/utf8"

	"binnacle/internal/telemetry"
)

// senmlJSON reads a SenML pack in JSON.
func (d *Decoder) senmlJSON(text []byte) {
	d.pack.begin(d)
	d.scan.Reset(text)
	err := errors.New("not valid UTF-8")
	if utf8.Valid(text) {
		err = d.scan.Array(func(int) error {
			r := &d.pack.record
			*r = senmlRecord{}
			err := d.scan.Object(func(name []byte) error { return d.senmlField(r, string(name)) })
			if err == nil {
				d.senml(r)
			}
			return err
		})
	}
	if err == nil && !d.scan.End() {
		err = d.scan.Fail("more after the end")
	}
	if err != nil {
		d.broken(faultf(Undecodable, "not SenML: %v", err))
		return
	}
	d.gathered()
}

func (d *Decoder) senmlField(r *senmlRecord, name string) (err error) {
	if len(name) > 1 && name[0] == 'b' {
		r.isBase = true
	}
	switch name {
	case "bn":
		r.hasBaseName = true
		r.baseName, err = d.senmlText(r, name)
	case "n":
		r.name, err = d.senmlText(r, name)
	case "bu":
		r.baseUnit, err = d.senmlText(r, name)
	case "u":
		r.unit, err = d.senmlText(r, name)
	case "bt":
		r.baseTime, err = d.senmlTime(r, name)
	case "t":
		r.time, err = d.senmlTime(r, name)
	case "bv":
		r.baseValue, err = d.senmlNumber(r, name)
	case "bs":
		r.baseSum, err = d.senmlNumber(r, name)
	case "v":
		r.value, err = d.senmlNumber(r, name)
	case "s":
		r.sum, err = d.senmlNumber(r, name)
	case "vs", "vd":
		var text string
		if text, err = d.senmlText(r, name); r.fault == nil {
			r.text = &text
		}
	case "vb":
		c := d.scan.Next()
		flag := c == 't'
		if r.flag = &flag; c != 't' && c != 'f' {
			r.wrong(faultf(Value, "vb is neither true nor false"))
		}
		err = d.scan.Skip(2)
	case "bver":
		var v *telemetry.Value
		if v, err = d.senmlNumber(r, name); v != nil {
			r.version = int64(asFloat(*v))
		}
	default:
		if strings.HasSuffix(name, "_") {
			r.unknown = name
		}
		err = d.scan.Skip(2)
	}
	return err
}

// wrong notes what is wrong. Of several it keeps the same, in whatever order the fields come.
func (r *senmlRecord) wrong(f *fault) {
	if r.fault == nil || f.detail < r.fault.detail {
		r.fault = f
	}
}

func (d *Decoder) senmlText(r *senmlRecord, name string) (string, error) {
	if d.scan.Next() != '"' {
		r.wrong(faultf(Value, "%s is not a string", name))
		return "", d.scan.Skip(2)
	}
	raw, err := d.scan.Str()
	if err != nil {
		return "", err
	}
	text, _ := d.texts.get(raw)
	return text, nil
}

func (d *Decoder) senmlNumber(r *senmlRecord, name string) (*telemetry.Value, error) {
	if c := d.scan.Next(); c != '-' && (c < '0' || c > '9') {
		r.wrong(faultf(Value, "%s is not a number", name))
		return nil, d.scan.Skip(2)
	}
	n, err := d.scan.Number()
	if err != nil {
		return nil, err
	}
	v, f := valueOf(n)
	if f != nil {
		r.wrong(f)
		return nil, nil
	}
	return &v, nil
}

// senmlTime reads seconds, exactly to the nanosecond.
func (d *Decoder) senmlTime(r *senmlRecord, name string) (int64, error) {
	if c := d.scan.Next(); c != '-' && (c < '0' || c > '9') {
		r.wrong(faultf(Time, "%s is not a number", name))
		return 0, d.scan.Skip(2)
	}
	n, err := d.scan.Number()
	if err != nil {
		return 0, err
	}
	n.Exp += 9
	nanos, ok := n.Floor()
	if !ok || nanos > maxSeconds*1e9 || nanos < -maxSeconds*1e9 {
		r.wrong(faultf(Time, "%s %.80q is too far away", name, n.Text))
		return 0, nil
	}
	return nanos, nil
}
