package decode

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/big"

	"binnacle/internal/telemetry"

	"github.com/fxamacker/cbor/v2"
)

// cborMode bounds what a pack may hold, and is as strict as SenML wants it.
var cborMode = func() cbor.DecMode {
	m, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IntDec: cbor.IntDecConvertSignedOrBigInt,
		MaxNestedLevels:  maxDepth - 1, // the array of records is one more
		MaxArrayElements: 1 << 20, MaxMapPairs: 1 << 10,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}()

// looksLikeCBOR reports whether a payload begins with an array of CBOR, which no text does.
func looksLikeCBOR(value []byte) bool { return value[0] >= 0x80 && value[0] <= 0x9F }

func (d *senmlReader) senmlCBOR(payload []byte) {
	d.pack.begin(d.Decoder)
	var f *fault
	switch err := d.cborRecords(payload); {
	case errors.As(err, &f):
		d.refuseRecord(f)
	case err != nil:
		d.refuseRecord(faultf(Undecodable, "not SenML: %.200v", err))
	default:
		d.endGroups()
	}
}

// cborArray returns what follows the head of an array of CBOR, and how many elements it says to have, -1 where a
// break ends it. The array may have fewer.
func cborArray(b []byte) (rest []byte, count int, err error) {
	if len(b) == 0 || b[0]>>5 != 4 {
		return nil, 0, errors.New("no array")
	}
	info, rest := b[0]&31, b[1:]
	switch {
	case info < 24:
		return rest, int(info), nil
	case info == 31:
		return rest, -1, nil
	case info > 27 || len(rest) < 1<<(info-24):
		return nil, 0, errors.New("the head of an array is broken")
	}
	size := 1 << (info - 24)
	n := uint64(0)
	for _, c := range rest[:size] {
		n = n<<8 | uint64(c)
	}
	if n > uint64(len(rest)-size) {
		return nil, 0, fmt.Errorf("an array of %d elements in %d bytes", n, len(rest)-size)
	}
	return rest[size:], int(n), nil
}

// cborRecords reads an array of records, one after another: all at once take fifty times the payload.
func (d *senmlReader) cborRecords(payload []byte) error {
	rest, count, err := cborArray(bytes.TrimPrefix(payload, selfDescribed))
	if err != nil {
		return err
	}
	r, field, fields := &d.pack.record, &senmlCBORField{}, map[any]any{}
	for ; count != 0; count-- {
		if count < 0 && len(rest) > 0 && rest[0] == cborBreak {
			rest = rest[1:]
			break
		}
		clear(fields)
		if rest, err = cborMode.UnmarshalFirst(rest, &fields); err != nil {
			return err
		}
		r.clear()
		for key, value := range fields {
			field.value = value
			switch key := key.(type) { // no other key means anything
			case int64:
				if key >= int64(baseSumLabel) && key <= int64(dataLabel) {
					r.take(senmlLabel(key), field)
				}
			case string:
				if l, known := senmlLabelOf([]byte(key)); known {
					r.take(l, field)
				} else {
					r.other(key, field)
				}
			}
		}
		if f := d.senml(); f != nil {
			return f
		}
	}
	if len(rest) > 0 {
		return errors.New("more after the end")
	}
	return nil
}

// selfDescribed is a tag that means CBOR and nothing else.
var selfDescribed = []byte{0xD9, 0xD9, 0xF7}

// cborBreak ends an array that does not say how long it is.
const cborBreak = 0xFF

// senmlCBORField is a decoded value.
type senmlCBORField struct{ value any }

func (f *senmlCBORField) skip() {}

func (f *senmlCBORField) text(r *senmlRecord, label string) string {
	text, ok := f.value.(string)
	if !ok {
		r.wrong(faultf(Value, "%s is not a string", label))
	}
	return text
}

func (f *senmlCBORField) data(r *senmlRecord, label string) string {
	data, ok := f.value.([]byte)
	if !ok {
		r.wrong(faultf(Value, "%s is not a byte string", label))
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func (f *senmlCBORField) flag(r *senmlRecord, label string) bool {
	flag, ok := f.value.(bool)
	if !ok {
		r.wrong(faultf(Value, "%s is neither true nor false", label))
	}
	return flag
}

// number takes an integer, a float or a decimal fraction.
func (f *senmlCBORField) number(r *senmlRecord, label string) telemetry.Value {
	v := f.numeric()
	if v.Kind() == 0 {
		r.wrong(faultf(Value, "%s is not a number of 64 bits", label))
	}
	return v
}

func (f *senmlCBORField) numeric() (v telemetry.Value) {
	switch x := f.value.(type) {
	case int64:
		return telemetry.IntValue(x)
	case float64:
		return telemetry.FloatValue(x)
	case cbor.Tag:
		if f, ok := decimalFraction(x); ok {
			return telemetry.FloatValue(f)
		}
	}
	return v
}

// decimalFraction returns the float64 nearest to what tag 4 holds: an exponent of ten, and a mantissa.
func decimalFraction(t cbor.Tag) (float64, bool) {
	pair, ok := t.Content.([]any)
	if t.Number != 4 || !ok || len(pair) != 2 {
		return 0, false
	}
	exp, ok := pair[0].(int64)
	mantissa, whole := pair[1].(int64)
	if !ok || !whole || exp > 400 || exp < -400 {
		return 0, false
	}
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(exp, -exp)), nil)
	f := new(big.Rat).SetInt64(mantissa)
	if exp < 0 {
		f.Quo(f, new(big.Rat).SetInt(ten))
	} else {
		f.Mul(f, new(big.Rat).SetInt(ten))
	}
	out, _ := f.Float64()
	return out, !math.IsInf(out, 0)
}

// seconds takes a float to the microsecond.
func (f *senmlCBORField) seconds(r *senmlRecord, label string) int64 {
	v := f.numeric()
	switch x := asFloat(v); {
	case v.Kind() == 0:
		r.wrong(faultf(Time, "%s is not a number", label))
	case !(math.Abs(x) < maxSeconds):
		r.wrong(faultf(Time, "%s %v is too far away", label, x))
	case v.Kind() == telemetry.Int:
		return v.Int() * 1e9
	default:
		return int64(math.Round(x*1e6)) * 1e3
	}
	return 0
}
