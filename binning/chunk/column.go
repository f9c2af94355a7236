package chunk

import (
	"encoding/binary"
	"math/bits"

	"binnacle/internal/telemetry"
)

func (e *encoder) writeColumn(c *Column, rows int) {
	flags := byte(0)
	if c.Present != nil && c.Len() < rows {
		flags, e.present = flagPresence, c.Present
		for i := 0; i < rows && !e.brief; i += 8 {
			e.s.packed = append(e.s.packed, byte(c.Present[i/64]>>(i%64)))
		}
	}
	switch c.Kind {
	case telemetry.Text:
		e.writeTextColumn(c.Texts, flags)
	case telemetry.Bool:
		e.writeHead(formBools | flags)
		e.writeBools(c.Bits)
	default:
		e.writeNumberColumn(c.Kind, c.Bits, flags)
	}
}

// writeHead appends the first byte of a column, and in a block, with flagPresence, which patterns have values.
func (e *encoder) writeHead(head byte) {
	e.s.plain = append(e.s.plain, head)
	if e.brief && head&flagPresence != 0 {
		e.s.plain = e.patterns.appendPresent(e.s.plain, e.present)
	}
}

func (e *encoder) writeBools(v []uint64) {
	if e.brief {
		e.direct.plan(telemetry.Int, v, true)
		e.writeInts(e.direct.ints, e.direct.intsPlan)
		return
	}
	for i := 0; i < len(v); i += 8 {
		b := byte(0)
		for k, x := range v[i:min(i+8, len(v))] {
			b |= byte(x) << k
		}
		e.s.packed = append(e.s.packed, b)
	}
}

// readColumn fills in Present and the values of a column with that many rows.
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
	if c.Kind == telemetry.Text {
		c.Texts = make([]string, n)
	} else {
		c.Bits = make([]uint64, n)
	}
	return d.readValues(head&valueFormMask, c, n)
}

// appended is rows of a block that are appended to a run.
type appended struct {
	from int // rows that the run has
	n    int // rows of the block
	more int // further rows to make room for
}

// appendColumn appends the values of a column of a block.
func (d *decoder) appendColumn(c *Column, rows appended) (err error) {
	head, err := d.byte()
	if err != nil {
		return err
	}
	n, more := rows.n, rows.more
	if head&flagPresence != 0 {
		if n, err = d.appendPresence(c, rows); err != nil {
			return err
		}
		more = 0 // unknown: only rows with a value need room
	} else if c.Present != nil {
		c.Present = c.Present.grown(rows.from + n)
		c.Present.setAll(rows.from, rows.from+n)
	}
	if n == 0 || n > d.values {
		return corrupt("%d values where 1 to %d can be", n, d.values)
	}
	d.values -= n
	if c.Kind == telemetry.Text {
		c.Texts = reserve(c.Texts, n, more)
	} else {
		c.Bits = reserve(c.Bits, n, more)
	}
	return d.readValues(head&valueFormMask, c, n)
}

// appendPresence appends which rows of a block have a value, by their patterns, and returns how many do.
func (d *decoder) appendPresence(c *Column, rows appended) (present int, err error) {
	set, err := d.takePlain(d.patterns.bytes())
	if err != nil {
		return 0, err
	}
	if onesIn(set, d.patterns.n) < 0 {
		return 0, corrupt("a bitmap goes on after its patterns")
	}
	all := c.Present
	if all == nil {
		all = NewBitmap(rows.from)
		all.setAll(0, rows.from)
	}
	all = all.grown(rows.from + rows.n)
	for i, of := range d.patterns.byRow {
		if set[of/8]>>(of%8)&1 != 0 {
			all.Set(rows.from + i)
			present++
		}
	}
	if present < rows.n || c.Present != nil {
		c.Present = all
	}
	return present, nil
}

// readValues reads values in a form into the last n of a column.
func (d *decoder) readValues(form byte, c *Column, n int) error {
	if c.Kind == telemetry.Text {
		texts := c.Texts[len(c.Texts)-n:]
		switch form {
		case formTexts:
			return d.readTexts(texts)
		case formTextIndex:
			return d.readTextIndex(texts)
		}
		return corrupt("form %d of texts", form)
	}
	bits := c.Bits[len(c.Bits)-n:]
	switch {
	case c.Kind == telemetry.Bool && form == formBools:
		return d.readBools(bits)
	case c.Kind == telemetry.Int && form == formInts, c.Kind == telemetry.Float &&
		(form == formDecimals || form == formDoubles):
		return d.readNumbers(form, bits)
	case (c.Kind == telemetry.Int || c.Kind == telemetry.Float) && form == formDictionary:
		return d.readDictionary(bits)
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
	if d.brief {
		if err := d.readNumbers(formInts, v); err != nil {
			return err
		}
		for _, x := range v {
			if x > 1 {
				return corrupt("a bool of %d", x)
			}
		}
		return nil
	}
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
