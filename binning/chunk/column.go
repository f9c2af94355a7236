package chunk

import (
	"encoding/binary"
	"math/bits"

	"binnacle/internal/telemetry"
)

// writeColumn appends the section of a column of so many rows.
func (e *encoder) writeColumn(c *Column, rows int) {
	flags := byte(0)
	if c.Present != nil && c.Len() < rows {
		flags = flagPresence
		for i := 0; i < rows; i += 8 {
			e.s.packed = append(e.s.packed, byte(c.Present[i/64]>>(i%64)))
		}
	}
	switch c.Kind {
	case telemetry.Text:
		e.writeTextColumn(c.Texts, flags)
	case telemetry.Bool:
		e.s.plain = append(e.s.plain, formBools|flags)
		for i := 0; i < len(c.Bits); i += 8 {
			b := byte(0)
			for k, x := range c.Bits[i:min(i+8, len(c.Bits))] {
				b |= byte(x) << k
			}
			e.s.packed = append(e.s.packed, b)
		}
	default:
		e.writeNumberColumn(c.Kind, c.Bits, flags)
	}
}

// readColumn fills in Present and the values of a column of so many rows.
func (d *decoder) readColumn(c *Column, rows int) error {
	head, err := d.byte()
	if err != nil {
		return err
	}
	n := rows
	if head&flagPresence != 0 {
		if c.Present, err = d.readPresence(rows); err != nil {
			return err
		}
		n = c.Present.Count()
	}
	if n == 0 || n > d.values {
		return corrupt("%d values where 1 to %d can be", n, d.values)
	}
	d.values -= n
	form := head & valueFormMask
	if c.Kind == telemetry.Text {
		c.Texts = make([]string, n)
		switch form {
		case formTexts:
			return d.readTexts(c.Texts)
		case formTextIndex:
			return d.readTextIndex(c.Texts)
		}
		return corrupt("form %d of texts", form)
	}
	c.Bits = make([]uint64, n)
	switch {
	case c.Kind == telemetry.Bool && form == formBools:
		return d.readBools(c.Bits)
	case c.Kind == telemetry.Int && form == formInts, c.Kind == telemetry.Float &&
		(form == formDecimals || form == formDoubles):
		return d.readNumbers(form, c.Bits)
	case (c.Kind == telemetry.Int || c.Kind == telemetry.Float) && form == formDictionary:
		return d.readDictionary(c.Bits)
	}
	return corrupt("form %d of %s", form, c.Kind)
}

func (d *decoder) readPresence(rows int) (Bitmap, error) {
	set, err := d.takePacked((rows + 7) / 8)
	if err != nil {
		return nil, err
	}
	if onesIn(set, rows) < 0 {
		return nil, corrupt("a bitmap goes on after its rows")
	}
	present := NewBitmap(rows)
	for i, b := range set {
		present[i/8] |= uint64(b) << (i % 8 * 8)
	}
	return present, nil
}

func (d *decoder) readBools(v []uint64) error {
	set, err := d.takePacked((len(v) + 7) / 8)
	if err != nil {
		return err
	}
	if onesIn(set, len(v)) < 0 {
		return corrupt("a bitmap goes on after its rows")
	}
	for i := range v {
		v[i] = uint64(set[i/8] >> (i % 8) & 1)
	}
	return nil
}

// onesIn counts the ones in a bitmap of n bits, -1 if bits beyond are set.
func onesIn(set []byte, n int) int {
	if n%8 != 0 && set[len(set)-1]>>(n%8) != 0 {
		return -1
	}
	ones := 0
	for ; len(set) >= 8; set = set[8:] {
		ones += bits.OnesCount64(binary.LittleEndian.Uint64(set))
	}
	for _, b := range set {
		ones += bits.OnesCount8(b)
	}
	return ones
}
