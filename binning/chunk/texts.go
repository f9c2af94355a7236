package chunk

import (
	"encoding/binary"
	"slices"
)

// writeTextColumn writes texts: one after the other when most differ, else through a sorted dictionary.
func (e *encoder) writeTextColumn(v []string, flags byte) {
	clear(e.texts)
	for _, s := range v {
		e.texts[s] = 0
	}
	if 2*len(e.texts) > len(v) {
		e.writeHead(formTexts | flags)
		e.writeTexts(v)
		return
	}
	distinct := e.distinctTexts[:0]
	for s := range e.texts {
		distinct = append(distinct, s)
	}
	slices.Sort(distinct)
	for i, s := range distinct {
		e.texts[s] = int64(i)
	}
	index := e.dict.index[:0]
	for _, s := range v {
		index = append(index, e.texts[s])
	}
	e.writeHead(formTextIndex | flags)
	e.s.plain = binary.AppendUvarint(e.s.plain, uint64(len(distinct)))
	e.writeTexts(distinct)
	e.writeInts(index, planInts(index, e.brief))
	e.dict.index = index
	clear(distinct) // the pool must not hold the caller's texts
	clear(e.texts)
	e.distinctTexts = distinct[:0]
}

func (e *encoder) writeTexts(v []string) {
	lengths := e.direct.ints[:0]
	for _, s := range v {
		lengths = append(lengths, int64(len(s)))
	}
	e.writeInts(lengths, planInts(lengths, e.brief))
	e.direct.ints = lengths
	for _, s := range v {
		e.s.packed = append(e.s.packed, s...)
	}
	if !e.brief {
		return
	}
	c, packed := e.pack(e.s.packed)
	e.s.plain = append(e.s.plain, byte(c))
	if c == huffPacked {
		e.s.plain = binary.AppendUvarint(e.s.plain, uint64(len(packed)))
	}
	e.s.plain = append(e.s.plain, packed...)
	e.s.packed = e.s.packed[:0]
}

// readTexts fills v with texts that share one allocation.
func (d *decoder) readTexts(v []string) error {
	total, err := d.readLengths(len(v))
	if err != nil {
		return err
	}
	b, err := d.takeTexts(total)
	if err != nil {
		return err
	}
	all := string(b)
	for i, n := range d.ints {
		v[i], all = all[:n], all[n:]
	}
	return nil
}

// takeTexts returns the bytes of texts, which a column of a block has packed by themselves.
func (d *decoder) takeTexts(total int) ([]byte, error) {
	if !d.brief {
		return d.takePacked(total)
	}
	c, err := d.byte()
	switch {
	case err != nil:
		return nil, err
	case codec(c) == stored:
		return d.takePlain(total)
	case codec(c) != huffPacked:
		return nil, corrupt("texts in %s", codec(c))
	}
	n, err := d.length(len(d.s.plain))
	if err != nil {
		return nil, err
	}
	b, err := d.takePlain(n)
	if err == nil {
		b, err = d.unhuff(b)
	}
	if err == nil && len(b) != total {
		err = corrupt("%d bytes of texts where %d are left", total, len(b))
	}
	return b, err
}

// readTextIndex fills v through a dictionary of texts.
func (d *decoder) readTextIndex(v []string) error {
	size, err := d.length(len(v))
	if err != nil {
		return err
	}
	list := make([]string, size)
	if err := d.readTexts(list); err != nil {
		return err
	}
	return readIndexes(d, list, v)
}
