package decode

import (
	"errors"
	"slices"

	"binnacle/internal/telemetry"
)

func newTemplates(off bool) templates {
	sets := newCache[telemetry.Labels](deviceBytes, setWeight)
	return templates{sets: sets, budget: tryBudget{left: restBudget}, off: off}
}

// walk reads the message that begins here as alone does, and learns from it if it is a reading.
func (d *jsonReader) walk(index int) error {
	d.scan.Next()
	begin, n := d.scan.At(), len(d.out.Readings)
	err := d.alone(index, d.reading)
	if s := &d.templates; err == nil && len(d.out.Readings) > n && s.budget.left >= 0 && !s.off && !d.flat {
		end := d.scan.At()
		if end-begin <= maxTemplate {
			s.budget.spend(learnCost)
			d.learn(begin, end)
		}
		d.scan.Seek(end)
	}
	return err
}

// learn makes a template of the message between two places, which is right. Objects that are no messages are recognized
// by the name of their first property, or by having no values: what matches is a message, too.
func (d *jsonReader) learn(begin, end int) {
	var f frame
	var b *body
	var had [otherPlace]bool
	last := begin
	text := func(to int) string { return string(d.source[last:to]) }
	d.scan.Seek(begin)
	err := d.scan.Object(func(name []byte) error {
		what, known := contents[string(name)]
		if !known {
			what = otherPlace
		}
		next := d.scan.Next()
		at := d.scan.At()
		switch {
		case what == otherPlace && string(name) == d.opts.Sequence, what < otherPlace && had[what]:
			return errNoTemplate
		case what == tenantPlace, what == devicePlace:
			if next != '"' {
				return errNoTemplate
			}
			at++
		case what == labelsPlace, what == tagsPlace, what == valuesPlace:
			if next != '{' {
				return errNoTemplate
			}
		}
		if what < otherPlace {
			had[what] = true
		}
		f.placeholders = append(f.placeholders, placeholder{text(at), what})
		if what == valuesPlace {
			b = d.learnBody()
			last = d.scan.At()
			if b == nil {
				return errNoTemplate
			}
			return nil
		}
		err := d.scan.Skip(2)
		last = d.scan.At()
		return err
	})
	if err != nil || b == nil || !had[timePlace] {
		return
	}
	f.end = text(end)
	d.templates.add(&f, b)
}

var errNoTemplate = errors.New("no template")

var contents = map[string]content{
	"tenant": tenantPlace, "device": devicePlace, "ts": timePlace,
	"labels": labelsPlace, "tags": tagsPlace, "values": valuesPlace,
}

// learnBody reads the object that begins here, nil if it is none for a template.
func (d *jsonReader) learnBody() *body {
	b := &body{}
	last := d.scan.At()
	var names []string
	err := d.scan.Object(func(raw []byte) error {
		name, err := d.metrics.get(raw)
		if err != nil {
			return err
		}
		d.scan.Next()
		names = append(names, name)
		b.before = append(b.before, string(d.source[last:d.scan.At()]))
		err = d.scan.Skip(2)
		last = d.scan.At()
		return err
	})
	if err != nil || len(names) == 0 {
		return nil
	}
	b.end = string(d.source[last:d.scan.At()])
	if !b.order(names) {
		return nil
	}
	return b
}

// order records where values stand that have names in this order; it reports false if a name stands twice.
func (b *body) order(names []string) bool {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	for i, name := range sorted {
		if i > 0 && sorted[i-1] == name {
			return false
		}
		b.fields = append(b.fields, telemetry.Field{Metric: name})
	}
	for _, name := range names {
		rank, _ := slices.BinarySearch(sorted, name)
		b.ranks = append(b.ranks, rank)
	}
	return true
}

// add takes a frame and a body, of which there may be one already.
func (s *templates) add(f *frame, b *body) {
	equal := func(g *frame) bool { return slices.Equal(g.placeholders, f.placeholders) && g.end == f.end }
	if !slices.ContainsFunc(s.frames, equal) {
		if len(s.frames) == maxFrames {
			s.frames = s.frames[:maxFrames-1]
		}
		s.frames = slices.Insert(s.frames, 0, f)
	}
	same := func(c *body) bool { return slices.Equal(c.before, b.before) && c.end == b.end }
	if slices.ContainsFunc(s.bodies, same) {
		return
	}
	if len(s.bodies) < maxBodies {
		s.bodies = append(s.bodies, b)
		return
	}
	s.bodies[s.next] = b
	s.next = (s.next + 1) % maxBodies
}
