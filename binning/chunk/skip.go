package chunk

import "github.com/klauspost/compress/huff0"

// skipColumn passes over a column with that many rows without decoding its values.
func (d *decoder) skipColumn(rows int) error {
	head, err := d.byte()
	if err != nil {
		return err
	}
	n := rows
	if head&flagPresence != 0 {
		set, err := d.takePacked((rows + 7) / 8)
		if err != nil {
			return err
		}
		if n = onesIn(set, rows); n < 0 {
			return corrupt("a bitmap goes on after its rows")
		}
	}
	if n == 0 {
		return corrupt("a column without values")
	}
	switch form := head & valueFormMask; form {
	case formInts, formDecimals, formDoubles:
		return d.skipNumbers(form, n)
	case formDictionary:
		size, err := d.length(n)
		if err != nil {
			return err
		}
		if form, err = d.byte(); err != nil {
			return err
		}
		if err := d.skipNumbers(form, size); err != nil {
			return err
		}
		return d.skipInts(n)
	case formBools:
		_, err := d.takePacked((n + 7) / 8)
		return err
	case formTexts:
		return d.skipTexts(n)
	case formTextIndex:
		size, err := d.length(n)
		if err != nil {
			return err
		}
		if err := d.skipTexts(size); err != nil {
			return err
		}
		return d.skipInts(n)
	}
	return corrupt("form %d of a column", head&valueFormMask)
}

func (d *decoder) skipNumbers(form byte, n int) error {
	scale := byte(0)
	switch form {
	case formInts, formDoubles:
	case formDecimals:
		var err error
		if scale, err = d.byte(); err != nil {
			return err
		}
	default:
		return corrupt("form %d of numbers", form)
	}
	if err := d.skipInts(n); err != nil || scale&scaleCorrection == 0 {
		return err
	}
	return d.skipInts(n)
}

// skipTexts goes past n texts; only their lengths tell how far that is.
func (d *decoder) skipTexts(n int) error {
	total, err := d.readLengths(n)
	if err != nil {
		return err
	}
	_, err = d.takePacked(total)
	return err
}

// skipInts goes past an integer stream of n values.
func (d *decoder) skipInts(n int) error {
	if n == 0 {
		return nil
	}
	s, err := d.streamHead(n)
	if err != nil || s.planes == 0 || s.count == 0 {
		return err
	}
	count := s.count
	if s.sparse {
		set, err := d.takePacked((count + 7) / 8)
		if err != nil {
			return err
		}
		if count = onesIn(set, count); count < 0 {
			return corrupt("a bitmap goes on after its rows")
		}
	}
	_, err = d.takePlanes(count, s.planes)
	return err
}

// readLengths reads the lengths of n texts into d.ints and adds them up.
func (d *decoder) readLengths(n int) (total int, err error) {
	if d.ints, err = d.readInts(d.ints, n); err != nil {
		return 0, err
	}
	most := len(d.s.packed)
	if d.brief {
		most = max(len(d.s.plain), huff0.BlockSizeMax)
	}
	for _, n := range d.ints {
		if n < 0 || n > int64(most-total) {
			return 0, corrupt("a text of %d bytes", n)
		}
		total += int(n)
	}
	return total, nil
}
