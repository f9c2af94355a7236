package chunk

import (
	"encoding/base64"
	"errors"
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

// ReadInts reads a stream of len(v) integers, none of them outside of least to most. What is none gives ErrCorrupt.
func ReadInts[T ~int32 | ~uint32](stream []byte, v []T, least, most int64) error {
	d := takeDecoder()
	defer d.release()
	if _, err := d.open(stream); err != nil {
		return err
	}
	if err := readInto(d, v, least, most); err != nil {
		return err
	}
	return d.closePacket()
}

func readInto[T ~int32 | ~uint32](d *decoder, v []T, least, most int64) error {
	if len(v) == 0 {
		return nil
	}
	s, err := d.streamHead(len(v))
	if err != nil {
		return err
	}
	within := func(x int64) error {
		if x < least || x > most {
			return corrupt("%d where %d to %d can be", x, least, most)
		}
		return nil
	}
	if s.constant() {
		one := s.first[0]
		for i := range v {
			v[i] = T(one)
		}
		return within(one)
	}
	if d.ints, err = d.readStream(d.ints, len(v), s); err != nil {
		return err
	}
	low, high := d.ints[0], d.ints[0]
	for i, x := range d.ints {
		low, high = min(low, x), max(high, x)
		v[i] = T(x)
	}
	return errors.Join(within(low), within(high))
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
