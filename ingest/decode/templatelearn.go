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
	err := d.alone(index)
	if s := &d.templates; err == nil && len(d.out.Readings) > n && s.budget.left >= 0 && !s.off {
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
	d.scan.Seek(begin)
	if d.scan.Begins("resourceMetrics") || d.beginsEnvelope() {
		return // it is a message in an array, but not alone
	}
	l := learner{jsonReader: d, last: begin}
	d.properties.clear()
	err := d.scan.Object(l.property)
	f := &l.frame
	if f.timed = l.had[timePlace]; err != nil || l.body == nil && !d.flat || l.body != nil && l.odd {
		return
	}
	if l.had[labelsPlace] && f.has(labelPlace) || l.had[tagsPlace] && f.has(tagPlace) {
		return // an object of labels counts instead of others
	}
	if len(l.names) > 0 {
		var ranks []int
		if f.fields, ranks = order(l.names); f.fields == nil {
			return
		}
		for i := range f.placeholders {
			if h := &f.placeholders[i]; h.what == valuePlace {
				h.number = ranks[h.number]
			}
		}
	}
	f.end = string(d.source[l.last:end])
	d.templates.add(f, l.body, d.flat)
}

func (f *frame) has(what content) bool {
	return slices.ContainsFunc(f.placeholders, func(h placeholder) bool { return h.what == what })
}

// learner is a message while a template is made of it.
type learner struct {
	*jsonReader
	frame frame
	body  *body // nil: it has no object of values
	had   [otherPlace]bool
	last  int      // where the text before the next placeholder begins
	names []string // names of values outside that object
	odd   bool     // a property is none of a message's
}

// put takes the value that begins here for a placeholder, and skips it.
func (l *learner) put(h placeholder) error {
	if h.what < otherPlace {
		if l.had[h.what] {
			return errNoTemplate
		}
		l.had[h.what] = true
	}
	next := l.scan.Next()
	at := l.scan.At()
	switch h.what {
	case tenantPlace, devicePlace:
		if next != '"' {
			return errNoTemplate
		}
		at++
	case labelPlace, tagPlace:
		if next != '"' {
			return errNoTemplate
		}
	case labelsPlace, tagsPlace, valuesPlace:
		if next != '{' {
			return errNoTemplate
		}
	}
	h.before = string(l.source[l.last:at])
	l.frame.placeholders = append(l.frame.placeholders, h)
	var err error
	switch h.what {
	case valuesPlace:
		if l.body = l.learnBody(); l.body == nil {
			return errNoTemplate
		}
	case tenantPlace: // flat texts check it, but do not remember it
		raw, fault := l.scan.Str()
		if err = fault; err == nil {
			_, err = l.tenants.get(raw)
		}
	default:
		err = l.scan.Skip()
	}
	l.last = l.scan.At()
	return err
}

// property learns a property of the message itself.
func (l *learner) property(name []byte) error {
	what, known := contents[string(name)]
	if l.flat && (!known || what == valuesPlace && l.scan.Next() != '{') {
		l.odd = true
		return l.flatProperty(name, 1)
	}
	if !known {
		if string(name) == l.opts.Sequence {
			return errNoTemplate
		}
		what = otherPlace
	}
	return l.put(placeholder{what: what})
}

// flatProperty learns a property of an object of any shape, as jsonReader.property reads it.
func (l *learner) flatProperty(name []byte, depth int) error {
	p := &l.properties
	defer p.leave(p.enter(name))
	role, next := l.roles[string(p.path)].role, l.scan.Next()
	switch {
	case role == timeRole:
		return l.put(placeholder{what: timePlace})
	case role == tenantRole:
		return l.put(placeholder{what: tenantPlace})
	case role == deviceRole:
		return l.put(placeholder{what: devicePlace})
	case role != valueRole:
		return l.flatLabel(role)
	case next == '{':
		return l.scan.Object(func(name []byte) error { return l.flatProperty(name, depth+1) })
	case next == '[':
		return l.put(placeholder{what: arrayPlace, number: depth})
	}
	metric, err := l.metrics.get(p.path)
	if err != nil {
		return err
	}
	l.names = append(l.names, metric)
	return l.put(placeholder{what: valuePlace, number: len(l.names) - 1})
}

// flatLabel learns a label or tag.
func (l *learner) flatLabel(role role) (err error) {
	names, h := &l.labelNames, placeholder{what: labelPlace}
	if role == tagRole {
		names, h = &l.tagNames, placeholder{what: tagPlace}
	}
	if h.name, err = names.get(l.properties.path); err != nil {
		return err
	}
	return l.put(h)
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
		err = d.scan.Skip()
		last = d.scan.At()
		return err
	})
	if err != nil || len(names) == 0 {
		return nil
	}
	b.end = string(d.source[last:d.scan.At()])
	if b.fields, b.ranks = order(names); b.fields == nil {
		return nil
	}
	return b
}

// order returns fields by name, and the places of values with names in this order; nil if a name occurs twice.
func order(names []string) (fields []telemetry.Field, ranks []int) {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	for i, name := range sorted {
		if i > 0 && sorted[i-1] == name {
			return nil, nil
		}
		fields = append(fields, telemetry.Field{Metric: name})
	}
	for _, name := range names {
		rank, _ := slices.BinarySearch(sorted, name)
		ranks = append(ranks, rank)
	}
	return fields, ranks
}

// add adds a frame, and a body unless that is nil, where it does not have them already.
func (s *templates) add(f *frame, b *body, flat bool) {
	frames, most := s.of(flat), maxFrames
	if flat {
		most = maxBodies
	}
	equal := func(g *frame) bool { return slices.Equal(g.placeholders, f.placeholders) && g.end == f.end }
	if !slices.ContainsFunc(*frames, equal) {
		if len(*frames) == most {
			*frames = (*frames)[:most-1]
		}
		*frames = slices.Insert(*frames, 0, f)
	}
	if b == nil {
		return
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
