package decode

import (
	"encoding/base64"
	"math"
	"math/big"
	"strconv"
	"strings"

	"binnacle/internal/telemetry"

	"github.com/fxamacker/cbor/v2"
)

// cborMode bounds what a pack may hold, and is as strict as SenML wants it.
var cborMode = func() cbor.DecMode {
	m, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IntDec: cbor.IntDecConvertSignedOrBigInt,
		MaxNestedLevels: 8, MaxArrayElements: 1 << 20, MaxMapPairs: 1 << 10,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}()

// looksLikeCBOR reports whether a payload begins with an array of CBOR, which no text does.
func looksLikeCBOR(value []byte) bool { return value[0] >= 0x80 && value[0] <= 0x9F }

// cborLabels are the names of the fields that CBOR writes as numbers: RFC 8428, table 4.
var cborLabels = map[int64]string{
	-6: "bs", -5: "bv", -4: "bu", -3: "bt", -2: "bn", -1: "bver",
	0: "n", 1: "u", 2: "v", 3: "vs", 4: "vb", 5: "s", 6: "t", 7: "ut", 8: "vd",
}

// senmlCBOR reads a SenML pack in CBOR.
func (d *Decoder) senmlCBOR(payload []byte) {
	var records []map[any]any
	d.pack.begin(d)
	if err := cborMode.Unmarshal(payload, &records); err != nil {
		d.broken(faultf(Undecodable, "not SenML: %.200v", err))
		return
	}
	for _, fields := range records {
		r := &d.pack.record
		*r = senmlRecord{}
		for key, value := range fields {
			name, _ := key.(string)
			if label, ok := key.(int64); ok {
				if name, ok = cborLabels[label]; !ok {
					name = strconv.FormatInt(label, 10)
				}
			}
			d.cborField(r, name, value)
		}
		d.senml(r)
	}
	d.gathered()
}

func (d *Decoder) cborField(r *senmlRecord, name string, value any) {
	if len(name) > 1 && name[0] == 'b' {
		r.isBase = true
	}
	switch name {
	case "bn":
		r.hasBaseName = true
		r.baseName = cborText(r, name, value)
	case "n":
		r.name = cborText(r, name, value)
	case "bu":
		r.baseUnit = cborText(r, name, value)
	case "u":
		r.unit = cborText(r, name, value)
	case "bt":
		r.baseTime = cborTime(r, name, value)
	case "t":
		r.time = cborTime(r, name, value)
	case "bv":
		r.baseValue = cborNumber(r, name, value)
	case "bs":
		r.baseSum = cborNumber(r, name, value)
	case "v":
		r.value = cborNumber(r, name, value)
	case "s":
		r.sum = cborNumber(r, name, value)
	case "vs":
		text := cborText(r, name, value)
		r.text = &text
	case "vd":
		data, ok := value.([]byte)
		if !ok {
			r.wrong(faultf(Value, "vd is not a byte string"))
		}
		text := base64.RawURLEncoding.EncodeToString(data)
		r.text = &text
	case "vb":
		flag, ok := value.(bool)
		if r.flag = &flag; !ok {
			r.wrong(faultf(Value, "vb is neither true nor false"))
		}
	case "bver":
		if v := cborNumber(r, name, value); v != nil {
			r.version = int64(asFloat(*v))
		}
	default:
		if strings.HasSuffix(name, "_") {
			r.unknown = name
		}
	}
}

func cborText(r *senmlRecord, name string, value any) string {
	text, ok := value.(string)
	if !ok {
		r.wrong(faultf(Value, "%s is not a string", name))
	}
	return text
}

// cborNumber is an integer, a float or a decimal fraction.
func cborNumber(r *senmlRecord, name string, value any) *telemetry.Value {
	var v telemetry.Value
	switch x := value.(type) {
	case int64:
		v = telemetry.IntValue(x)
	case float64:
		v = telemetry.FloatValue(x)
	case float32:
		v = telemetry.FloatValue(float64(x))
	case cbor.Tag:
		f, ok := decimalFraction(x)
		if !ok {
			r.wrong(faultf(Value, "%s is not a number", name))
			return nil
		}
		v = telemetry.FloatValue(f)
	default:
		r.wrong(faultf(Value, "%s is not a number of 64 bits", name))
		return nil
	}
	return &v
}

// decimalFraction is the float64 nearest to what tag 4 holds: an exponent of ten, and a mantissa.
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

// cborTime is a number of seconds in nanoseconds: a float's to the microsecond.
func cborTime(r *senmlRecord, name string, value any) int64 {
	if whole, ok := value.(int64); ok && whole > -maxSeconds && whole < maxSeconds {
		return whole * 1e9
	}
	v := cborNumber(r, name, value)
	if v == nil {
		return 0
	}
	nanos, f := seconds(asFloat(*v))
	if f != nil {
		r.wrong(f)
	}
	return nanos
}
