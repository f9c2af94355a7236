package decode

import (
	"errors"
	"unicode/utf8"

	"binnacle/internal/telemetry"
)

func (d *senmlReader) senmlJSON(text []byte) {
	d.pack.begin(d.Decoder)
	d.scan.Reset(text)
	var refused *fault
	r, field := &d.pack.record, &senmlJSONField{d: d}
	err := errors.New("not valid UTF-8")
	if utf8.Valid(text) {
		err = d.scan.Array(func(int) error {
			r.clear()
			err := d.scan.Object(func(name []byte) error {
				if l, known := senmlLabelOf(name); known {
					r.take(l, field)
				} else {
					r.other(string(name), field)
				}
				return field.err
			})
			if err == nil && refused == nil {
				refused = d.senml()
			}
			return err
		})
	}
	if err == nil && !d.scan.End() {
		err = d.scan.Fail("more after the end")
	}
	switch {
	case err != nil:
		d.refuseRecord(faultf(Undecodable, "not SenML: %v", err))
	case refused != nil:
		d.refuseRecord(refused)
	default:
		d.endGroups()
	}
}

// senmlJSONField is the value that the scanner reads next. err is the first error of syntax.
type senmlJSONField struct {
	d   *senmlReader
	err error
}

func (f *senmlJSONField) skip() { f.err = f.d.scan.Skip() }

func (f *senmlJSONField) text(r *senmlRecord, label string) string {
	if f.d.scan.Next() != '"' {
		r.wrong(faultf(Value, "%s is not a string", label))
		f.skip()
		return ""
	}
	var raw []byte
	if raw, f.err = f.d.scan.Str(); f.err != nil {
		return ""
	}
	text, _ := f.d.texts.get(raw)
	return text
}

func (f *senmlJSONField) data(r *senmlRecord, label string) string { return f.text(r, label) }

func (f *senmlJSONField) flag(r *senmlRecord, label string) bool {
	c := f.d.scan.Next()
	if c != 't' && c != 'f' {
		r.wrong(faultf(Value, "%s is neither true nor false", label))
	}
	f.skip()
	return c == 't'
}

func (f *senmlJSONField) number(r *senmlRecord, label string) (v telemetry.Value) {
	if c := f.d.scan.Next(); c != '-' && (c < '0' || c > '9') {
		r.wrong(faultf(Value, "%s is not a number", label))
		f.skip()
		return v
	}
	n, err := f.d.scan.Number()
	if f.err = err; err != nil {
		return v
	}
	v, fault := valueOf(n)
	if fault != nil {
		r.wrong(fault)
	}
	return v
}

// seconds reads a number exactly to the nanosecond.
func (f *senmlJSONField) seconds(r *senmlRecord, label string) int64 {
	if c := f.d.scan.Next(); c != '-' && (c < '0' || c > '9') {
		r.wrong(faultf(Time, "%s is not a number", label))
		f.skip()
		return 0
	}
	n, err := f.d.scan.Number()
	if f.err = err; err != nil {
		return 0
	}
	n.Exp += 9
	nanos, ok := n.Floor()
	if !ok || nanos > maxSeconds*1e9 || nanos < -maxSeconds*1e9 {
		r.wrong(faultf(Time, "%s %.80q is too far away", label, n.Text))
		return 0
	}
	return nanos
}
