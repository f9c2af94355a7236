package decode

// place is a property of the objects of messages, or a field of lines, by the text in front of its value. The messages
// of a producer resemble each other: their properties come in the same order and with the same blanks. So a place
// knows which places came behind it the last times, and a comparison of texts finds the next one. What it means
// depends on its name and on options alone.
type place struct {
	before string // from the end of the value before it, or the begin of the object
	name   string // names of the objects around it and its own, joined by _
	metric string // the name once it was checked as a metric's
	what   content
	propertyRole
	inner *places // of the object that is its value, nil until there was one

	next, other *place
}

// places are the properties of the objects at one place of messages.
type places struct {
	known map[string]*place // by before
	begin place             // stands in front of the first one
}

// follow returns the place with the text that a payload continues with, if it was seen behind p; else nil.
func (p *place) follow(rest []byte) *place {
	if q := p.next; q != nil && begins(rest, q.before) {
		return q
	}
	q := p.other
	if q == nil || !begins(rest, q.before) {
		return nil
	}
	p.next, p.other = q, p.next
	return q
}

func begins(b []byte, text string) bool { return len(b) >= len(text) && string(b[:len(text)]) == text }

// link remembers that q came behind p.
func (p *place) link(q *place) { p.next, p.other = q, p.next }

// get returns the place with a text in front of its value, nil for one that is not known.
func (s *places) get(before []byte) *place { return s.known[string(before)] }

// room bounds what places take: when it is used up, all are forgotten.
type room struct{ used int }

const (
	maxPlaces  = 1 << 18
	placeBytes = 200
)

// put remembers a place if its text is short and there is room, and reports whether it has.
func (r *room) put(s *places, p *place) bool {
	size := placeBytes + len(p.before) + len(p.name)
	if r.used += size; len(p.before) > maxInternedBytes || r.used > maxPlaces {
		return false
	}
	if s.known == nil {
		s.known = map[string]*place{}
	}
	s.known[p.before] = p
	return true
}

// full reports whether everything must be forgotten, after as much was turned away as there is room for.
func (r *room) full() bool { return r.used > 2*maxPlaces }

func (d *Decoder) metricAt(p *place) (string, error) {
	if err := d.made.part(fieldBytes + len(p.name)); err != nil || p.metric != "" {
		return p.metric, err
	}
	metric, err := d.metrics.get([]byte(p.name))
	if err != nil {
		return "", faultf(Name, "%v", err)
	}
	p.metric = metric
	return metric, nil
}

func (p *place) objects() *places {
	if p.inner == nil {
		p.inner = &places{}
	}
	return p.inner
}
