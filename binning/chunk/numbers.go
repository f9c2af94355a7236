package chunk

import (
	"encoding/binary"
	"slices"

	"binnacle/internal/telemetry"
)

// Forms of a column's values; the numbers are stored.
const (
	formInts       = 0 // an integer stream
	formDecimals   = 1 // a scale, its mantissas, its corrections
	formDoubles    = 2 // the doubles' numbers in their order
	formDictionary = 3 // the distinct numbers, ascending, in one of the forms above; then an index for each value
	formBools      = 4 // a bitmap
	formTexts      = 5 // lengths, then all bytes
	formTextIndex  = 6 // the distinct texts, ascending, as formTexts; then an index for each value

	valueFormMask = 0x7F
	flagPresence  = 0x80 // a bitmap of the rows that have a value comes first

	scaleExpMask    = 0x1F
	scaleSingle     = 0x40
	scaleCorrection = 0x80
)

// numbers is how a run of numbers is going to be written, with the memory for it.
type numbers struct {
	form        byte
	scale       scale
	ints        []int64 // the ints, the mantissas, or the doubles' numbers
	corrections []int64 // one for each int, or none
	intsPlan    intPlan
	corrPlan    intPlan
}

func (p *numbers) bits() float64 { return p.intsPlan.bits + p.corrPlan.bits }

func (p *numbers) plan(kind telemetry.Kind, v []uint64, brief bool) {
	p.ints = slices.Grow(p.ints[:0], len(v))[:len(v)]
	p.corrections = p.corrections[:0]
	p.corrPlan = intPlan{}
	if kind == telemetry.Int {
		p.form = formInts
		for i, b := range v {
			p.ints[i] = int64(b)
		}
	} else if s, ok := chooseScale(v, brief); ok {
		p.form, p.scale = formDecimals, s
		p.scaled(v)
	} else {
		p.form = formDoubles
		for i, b := range v {
			p.ints[i] = ord(b)
		}
	}
	p.intsPlan = planInts(p.ints, brief)
	if len(p.corrections) > 0 {
		p.corrPlan = planInts(p.corrections, brief)
	}
}

// scaled fills in mantissas and, from the first value that needs one, corrections.
func (p *numbers) scaled(v []uint64) {
	s := p.scale
	power, ints := powers[s.exp], p.ints[:len(v)]
	for i, b := range v {
		m, got := s.nearest(b, power)
		ints[i] = m
		if got == b {
			continue
		}
		if len(p.corrections) == 0 {
			p.corrections = slices.Grow(p.corrections, len(v))[:len(v)]
			clear(p.corrections)
		}
		p.corrections[i] = ord(b) - ord(got)
	}
}

// writeNumbers appends what p planned: the form's byte, with flags, and the streams.
func (e *encoder) writeNumbers(p *numbers, flags byte) {
	e.writeHead(p.form | flags)
	if p.form == formDecimals {
		head := byte(p.scale.exp)
		if p.scale.single {
			head |= scaleSingle
		}
		if len(p.corrections) > 0 {
			head |= scaleCorrection
		}
		e.s.plain = append(e.s.plain, head)
	}
	e.writeInts(p.ints, p.intsPlan)
	if len(p.corrections) > 0 {
		e.writeInts(p.corrections, p.corrPlan)
	}
}

// readNumbers reads len(v) numbers of a form into v.
func (d *decoder) readNumbers(form byte, v []uint64) (err error) {
	s, head := scale{}, byte(0)
	if form == formDecimals {
		if head, err = d.byte(); err != nil {
			return err
		}
		s = scale{int(head & scaleExpMask), head&scaleSingle != 0}
		if s.exp > maxExp {
			return corrupt("a scale of 10^%d", s.exp)
		}
	}
	if d.ints, err = d.readInts(d.ints, len(v)); err != nil {
		return err
	}
	switch form {
	case formInts:
		for i, x := range d.ints {
			v[i] = uint64(x)
		}
	case formDoubles:
		for i, x := range d.ints {
			v[i] = unord(x)
		}
	case formDecimals:
		s.values(v, d.ints)
		if head&scaleCorrection != 0 {
			return d.correct(v)
		}
	default:
		return corrupt("form %d of numbers", form)
	}
	return nil
}

func (d *decoder) correct(v []uint64) (err error) {
	if d.ints, err = d.readInts(d.ints, len(v)); err != nil {
		return err
	}
	for i, c := range d.ints {
		if c != 0 {
			v[i] = unord(ord(v[i]) + c)
		}
	}
	return nil
}

// writeNumberColumn writes the values of a float or int column: as they are, or through a smaller dictionary.
func (e *encoder) writeNumberColumn(kind telemetry.Kind, v []uint64, flags byte) {
	e.direct.plan(kind, v, e.brief)
	if !e.dictionaryWins(kind, v) {
		e.writeNumbers(&e.direct, flags)
		return
	}
	e.writeHead(formDictionary | flags)
	e.s.plain = binary.AppendUvarint(e.s.plain, uint64(len(e.dict.distinct)))
	e.writeNumbers(&e.listed, 0)
	e.writeInts(e.dict.index, e.indexPlan)
}

// dictionaryWins reports whether a dictionary beats e.direct; if so it has planned e.listed, e.dict and e.indexPlan.
func (e *encoder) dictionaryWins(kind telemetry.Kind, v []uint64) bool {
	n, most := float64(len(v)), len(v)/2
	if e.brief {
		// What takes few bits is well kept by its codes, and what has many distinct values is seldom worth the try.
		n, most = 4*n, len(v)/4
	}
	if e.direct.bits() < n || !e.dict.build(kind, v, most) {
		return false
	}
	distinct := len(e.dict.distinct)
	if e.direct.intsPlan.span < 2*uint64(distinct) && len(e.direct.corrections) == 0 {
		return false // the values are their own index
	}
	e.indexPlan = planInts(e.dict.index, e.brief)
	if e.indexPlan.bits >= e.direct.bits() {
		return false
	}
	e.listed.plan(kind, e.dict.distinct, e.brief)
	return e.indexPlan.bits+e.listed.bits() < e.direct.bits()
}

// readDictionary reads len(v) numbers through their dictionary.
func (d *decoder) readDictionary(v []uint64) error {
	size, err := d.length(len(v))
	if err != nil {
		return err
	}
	form, err := d.byte()
	if err != nil {
		return err
	}
	list := slices.Grow(d.list[:0], size)[:size]
	d.list = list
	if err := d.readNumbers(form, list); err != nil {
		return err
	}
	return readIndexes(d, list, v)
}

// readIndexes reads len(v) places in a dictionary, and fills v with the entries there.
func readIndexes[T uint64 | string](d *decoder, dictionary, v []T) (err error) {
	if d.ints, err = d.readInts(d.ints, len(v)); err != nil {
		return err
	}
	for i, x := range d.ints {
		if uint64(x) >= uint64(len(dictionary)) {
			return corrupt("index %d into a dictionary of %d", x, len(dictionary))
		}
		v[i] = dictionary[x]
	}
	return nil
}
