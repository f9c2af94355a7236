package decode

import "binnacle/internal/telemetry"

// role is the meaning of a property of an object: a value, unless the options give its name another one.
type role uint8

const (
	valueRole role = iota
	tenantRole
	deviceRole
	timeRole
	labelRole
	tagRole
)

// propertyRole is a role, and the rank of the name among those with that role: the first counts.
type propertyRole struct {
	role role
	rank int
}

func propertyRoles(n ObjectNames) map[string]propertyRole {
	all := map[string]propertyRole{}
	set := func(names []string, r role) {
		for i, name := range names {
			all[name] = propertyRole{r, i}
		}
	}
	set(n.Tags, tagRole)
	set(n.Labels, labelRole)
	set(n.Time, timeRole)
	set(n.Tenant, tenantRole)
	set(n.Device, deviceRole)
	return all
}

// objects reads objects that have properties with roles by their names, in JSON or Avro.
type objects struct {
	*Decoder
	roles      map[string]propertyRole
	properties properties
	valueAt    func(at int) telemetry.Value // reads a property again as a value; nil: found has it
}

func newObjects(d *Decoder) objects { return objects{Decoder: d, roles: propertyRoles(d.opts.Object)} }

// properties has the properties of an object that are no values.
type properties struct {
	path                 []byte // path of the property that is read, its names joined by _
	values               bool   // all that is read is a value, whatever its name
	any                  bool   // there are some
	tenant, device, time found
	labels, tags         []telemetry.Label
}

// found is a property for something that several properties may name.
type found struct {
	is     bool
	rank   int // rank of its name; the first counts
	name   string
	text   string // tenant or device
	millis int64  // time
	// value is what the property is where it has no role. JSON is read for that again, at the place at.
	value telemetry.Value
	at    int
}

// offer takes a property for the best one, and returns the one that is not: it is a value like others, unless both say
// the same.
func (f *found) offer(x found) (other found) {
	if f.is && f.rank <= x.rank {
		return x.unless(*f)
	}
	other = f.unless(x)
	*f = x
	return other
}

// unless returns a property, none if it says the same as another one.
func (f found) unless(same found) found {
	if f.text == same.text && f.millis == same.millis {
		return found{}
	}
	return f
}

func (p *properties) clear() {
	if p.any {
		*p = properties{path: p.path[:0], labels: p.labels[:0], tags: p.tags[:0]}
	}
}

// enter goes to a property; leave with its result goes back.
func (p *properties) enter(name []byte) (before int) {
	before = len(p.path)
	if before > 0 {
		p.path = append(p.path, '_')
	}
	p.path = append(p.path, name...)
	return before
}

func (p *properties) leave(before int) { p.path = p.path[:before] }

// propertyText takes the text of a property that has a role; others may have it, too.
func (d *objects) propertyText(c propertyRole, x found) error {
	p := &d.properties
	p.any, x.is, x.rank = true, true, c.rank
	names, to := &d.labelNames, &p.labels
	switch c.role {
	case tenantRole:
		return d.propertyOther(p.tenant.offer(x))
	case deviceRole:
		return d.propertyOther(p.device.offer(x))
	case tagRole:
		names, to = &d.tagNames, &p.tags
	}
	name, err := names.get([]byte(x.name))
	if err != nil {
		return faultf(Name, "%v", err)
	}
	*to = append(*to, telemetry.Label{Name: name, Value: x.text})
	return d.made.part(pairBytes + len(name))
}

// propertyTime does for times what propertyText does for texts.
func (d *objects) propertyTime(c propertyRole, x found) error {
	d.properties.any, x.is, x.rank = true, true, c.rank
	return d.propertyOther(d.properties.time.offer(x))
}

// propertyOther takes a property that has no role because another one has it, if there is one, for a value.
func (d *objects) propertyOther(f found) error {
	if !f.is {
		return nil
	}
	metric, err := d.metric(d.fields.count, []byte(f.name))
	if err != nil {
		return err
	}
	if d.valueAt != nil {
		f.value = d.valueAt(f.at)
	}
	d.put(metric, f.value)
	return nil
}

// complete gives a reading the tenant, device, time, labels and tags that were found, where the message has none. In
// a message with an object of values no other property becomes a value.
func (d *objects) complete(m *unfinished, whole bool) error {
	p, r := &d.properties, &m.Reading
	if !p.any {
		return nil
	}
	if r.Tenant == "" && p.tenant.text != "" {
		if err := d.checkTenant(p.tenant.text); err != nil {
			return faultf(Tenant, "%v", err)
		}
		r.Tenant = p.tenant.text
	}
	if r.Device == "" && p.device.text != "" {
		if err := d.checkDevice(p.device.text); err != nil {
			return faultf(Device, "%v", err)
		}
		r.Device = p.device.text
	}
	if !m.timed && p.time.is {
		r.Time, m.timed = p.time.millis, true
	}
	if !whole {
		for _, f := range [...]found{p.tenant.unless(found{text: r.Tenant}), p.device.unless(found{text: r.Device}),
			p.time.unless(found{millis: r.Time})} {
			if err := d.propertyOther(f); err != nil {
				return err
			}
		}
	}
	var f *fault
	if len(p.labels) > 0 {
		r.Labels, f = d.labelSets.labels(append(p.labels, r.Labels...), &d.key)
	}
	if len(p.tags) > 0 && f == nil {
		r.Tags, f = d.labelSets.get(append(p.tags, r.Tags...), &d.key)
	}
	if f != nil {
		return f
	}
	return nil
}

// property reads a property of an object of any shape.
func (d *jsonReader) property(p *place) error {
	switch next := d.scan.Next(); {
	case p.role == timeRole:
		x := found{name: p.name, at: d.scan.At()}
		var err error
		if x.millis, x.is, err = d.instant(); !x.is || err != nil {
			return err
		}
		return d.propertyTime(p.propertyRole, x)
	case p.role != valueRole:
		x := found{name: p.name, at: d.scan.At()}
		var err error
		if x.text, err = d.anyScalar(p.name); err != nil || x.text == "" {
			return err
		}
		return d.propertyText(p.propertyRole, x)
	case next == '{':
		return d.object(p.objects(), p.name, flatKind)
	case next == '[':
		return d.scan.Skip()
	}
	return d.single(p)
}

// anyScalar reads a string, a number or a bool as text; null is none.
func (d *jsonReader) anyScalar(name string) (string, error) {
	switch c := d.scan.Next(); c {
	case 'n':
		return "", d.scan.Word("null")
	case '"':
		raw, err := d.scan.Str()
		if err != nil {
			return "", err
		}
		text, _ := d.texts.get(raw)
		return text, nil
	case '{', '[':
		return "", faultf(Label, "%q is neither text nor a number", name)
	}
	from := d.scan.At()
	if err := d.scan.Skip(); err != nil {
		return "", err
	}
	text, _ := d.texts.get(d.source[from:d.scan.At()])
	return text, nil
}

// scalarAt returns the scalar at a place, one that was read, as a value.
func (d *jsonReader) scalarAt(at int) telemetry.Value {
	end := d.scan.At()
	d.scan.Seek(at)
	v, err := d.scalar("")
	if err != nil { // a number that no value holds
		d.scan.Seek(at)
		_ = d.scan.Skip()
		v = telemetry.TextValue(string(d.source[at:d.scan.At()]))
	}
	d.scan.Seek(end)
	return v
}

// place is a property of the objects of messages, or a field of lines, by the text in front of its value. The messages
// of a producer resemble each other: their properties come in the same order and with the same blanks. So a place
// knows which places came behind it the last times, and a comparison of texts finds the next one. What it means
// depends on its name and on options alone. before begins where the value in front ends; inner has an object's places.
type place struct {
	before string
	name   string // names of the objects around it and its own, joined by _
	metric string // the name once it was checked as a metric's
	what   content
	propertyRole
	inner *places

	next, other *place
}

// places are the properties of the objects at one place of messages, known by the texts before their values.
type places struct {
	known map[string]*place
	begin place // stands in front of the first one
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
