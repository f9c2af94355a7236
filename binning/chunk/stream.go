package chunk

import (
	"cmp"
	"encoding/base64"
	"math"
	"slices"

	"binnacle/internal/telemetry"
)

// A stream is a run of numbers apart from any chunk, in base64: one packet with one column, as a chunk has it,
// without a bitmap. Its length is stored elsewhere in the document.

// AppendInts appends a stream of integers.
func AppendInts(dst []byte, v []int64) []byte {
	e := takeEncoder(false)
	defer e.release()
	e.s = section{e.s.plain[:0], e.s.packed[:0]}
	e.writeInts(v, planInts(v, false))
	return e.appendStream(dst)
}

// ReadInts reads a stream of n integers, none of them outside of least to most. What is none gives ErrCorrupt. The
// result may share its memory with other results: nobody may change it.
func ReadInts[T ~int32 | ~uint32](stream []byte, n int, least, most int64) ([]T, error) {
	d := takeDecoder()
	defer d.release()
	if _, err := d.open(stream); err != nil || n == 0 {
		return nil, cmp.Or(err, d.closePacket())
	}
	s, err := d.streamHead(n)
	if err != nil {
		return nil, err
	}
	if low := s.first[0]; s.constant() && low >= least && low <= most {
		return repeated(d, T(low), n), d.closePacket()
	}
	if d.ints, err = d.readStream(d.ints, n, s); err != nil {
		return nil, err
	}
	v := make([]T, n)
	for i, x := range d.ints {
		if x < least || x > most {
			return nil, corrupt("%d where %d to %d can be", x, least, most)
		}
		v[i] = T(x)
	}
	return v, d.closePacket()
}

// maxRepeated bounds the columns of one value that a decoder remembers.
const maxRepeated = 4

// repeated returns n times a value, in memory of an earlier result if that is not much longer.
func repeated[T ~int32 | ~uint32](d *decoder, x T, n int) []T {
	for _, earlier := range d.repeated {
		if v, ok := earlier.([]T); ok && v[0] == x && len(v) >= n && len(v) <= 2*n {
			return v[:n:n]
		}
	}
	v := slices.Repeat([]T{x}, n)
	d.repeated = append(d.repeated[max(0, len(d.repeated)+1-maxRepeated):], v)
	return v
}

// AppendFloats appends a stream of floats. Every bit pattern is kept.
func AppendFloats(dst []byte, v []float64) []byte {
	e := takeEncoder(false)
	defer e.release()
	e.s = section{e.s.plain[:0], e.s.packed[:0]}
	bits := slices.Grow(e.bits[:0], len(v))[:len(v)]
	e.bits = bits
	for i, f := range v {
		bits[i] = math.Float64bits(f)
	}
	if len(v) > 0 {
		e.writeNumberColumn(telemetry.Float, bits, 0)
	}
	return e.appendStream(dst)
}

// ReadFloats reads a stream of len(v) floats. What is none gives ErrCorrupt.
func ReadFloats(stream []byte, v []float64) error {
	d := takeDecoder()
	defer d.release()
	if _, err := d.open(stream); err != nil {
		return err
	}
	if len(v) > 0 {
		if err := d.readFloats(v); err != nil {
			return err
		}
	}
	return d.closePacket()
}

func (d *decoder) readFloats(v []float64) error {
	form, err := d.byte()
	if err != nil {
		return err
	}
	bits := slices.Grow(d.bits[:0], len(v))[:len(v)]
	d.bits = bits
	switch form {
	case formDecimals, formDoubles:
		err = d.readNumbers(form, bits)
	case formDictionary:
		err = d.readDictionary(bits)
	default:
		err = corrupt("form %d of floats", form)
	}
	if err != nil {
		return err
	}
	for i, b := range bits {
		v[i] = math.Float64frombits(b)
	}
	return nil
}

func (e *encoder) appendStream(dst []byte) []byte {
	e.packet = e.appendPacket(e.packet[:0], e.s)
	return base64.StdEncoding.AppendEncode(dst, e.packet)
}
