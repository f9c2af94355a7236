package decode

import (
	"binnacle/internal/telemetry"
)

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
	from       int // where the fields of the current object begin
	roles      map[string]propertyRole
	properties properties
}

func newObjects(d *Decoder) objects { return objects{Decoder: d, roles: propertyRoles(d.opts.Object)} }

// properties has the properties of an object that are no values.
type properties struct {
	path                 []byte // path of the property that is read, its names joined by _
	values               bool   // all that is read is a value, whatever its name
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
	value  telemetry.Value
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
	*p = properties{path: p.path[:0], labels: p.labels[:0], tags: p.tags[:0]}
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

// propertyText takes the text of a property that has a role. value is its value where another property has the role.
func (d *objects) propertyText(c propertyRole, text string, value telemetry.Value) error {
	p := &d.properties
	names, to := &d.labelNames, &p.labels
	switch c.role {
	case tenantRole:
		return d.propertyOther(p.tenant.offer(d.found(c, found{text: text, value: value})))
	case deviceRole:
		return d.propertyOther(p.device.offer(d.found(c, found{text: text, value: value})))
	case tagRole:
		names, to = &d.tagNames, &p.tags
	}
	name, err := names.get(p.path)
	if err != nil {
		return faultf(Name, "%v", err)
	}
	*to = append(*to, telemetry.Label{Name: name, Value: text})
	return d.made.part(pairBytes + len(name))
}

// propertyTime does for times what propertyText does for texts.
func (d *objects) propertyTime(c propertyRole, millis int64, value telemetry.Value) error {
	return d.propertyOther(d.properties.time.offer(d.found(c, found{millis: millis, value: value})))
}

func (d *objects) found(c propertyRole, f found) found {
	f.is, f.rank = true, c.rank
	f.name, _ = d.texts.get(d.properties.path)
	return f
}

// propertyOther takes a property that has no role because another one has it, if there is one, for a value.
func (d *objects) propertyOther(f found) error {
	if !f.is {
		return nil
	}
	metric, err := d.metric(len(d.fields)-d.from, []byte(f.name))
	if err != nil {
		return err
	}
	d.fields = append(d.fields, telemetry.Field{Metric: metric, Value: f.value})
	return nil
}

// complete gives a reading the tenant, device, time, labels and tags that were found, where the message has none. In
// a message with an object of values no other property becomes a value.
func (d *objects) complete(m *message, whole bool) error {
	p, r := &d.properties, &m.Reading
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
	if f := p.labelsInto(d.Decoder, r); f != nil {
		return f
	}
	return nil
}

// labelsInto adds the labels and tags that were found to a reading's own.
func (p *properties) labelsInto(d *Decoder, r *telemetry.Reading) (f *fault) {
	if len(p.labels) > 0 {
		r.Labels, f = d.labelSets.labels(append(p.labels, r.Labels...), &d.key)
	}
	if len(p.tags) > 0 && f == nil {
		r.Tags, f = d.labelSets.get(append(p.tags, r.Tags...), &d.key)
	}
	return f
}

func (d *jsonReader) property(name []byte) error {
	p := &d.properties
	before := p.enter(name)
	defer p.leave(before)
	c := d.roles[string(p.path)]
	switch next := d.scan.Next(); {
	case c.role == timeRole:
		at := d.scan.At()
		millis, ok, err := d.time()
		if !ok || err != nil {
			return err
		}
		return d.propertyTime(c, millis, d.scalarAt(at))
	case c.role != valueRole:
		at := d.scan.At()
		text, err := d.anyScalar()
		if err != nil || text == "" {
			return err
		}
		return d.propertyText(c, text, d.scalarAt(at))
	case next == '{':
		return d.scan.Object(d.property)
	case next == '[':
		return d.scan.Skip()
	}
	metric, err := d.metric(len(d.fields)-d.from, p.path)
	if err != nil {
		return err
	}
	v, err := d.value(metric)
	if err != nil {
		return err
	}
	d.fields = append(d.fields, telemetry.Field{Metric: metric, Value: v})
	return nil
}

// anyScalar reads a string, a number or a bool as text; null is none.
func (d *jsonReader) anyScalar() (string, error) {
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
		return "", faultf(Label, "%q is neither text nor a number", d.properties.path)
	}
	from := d.scan.At()
	if err := d.scan.Skip(); err != nil {
		return "", err
	}
	text, _ := d.texts.get(d.source[from:d.scan.At()])
	return text, nil
}

// scalarAt returns the scalar between a place and the scanner's place: the text where the scalar is no value.
func (d *jsonReader) scalarAt(at int) telemetry.Value {
	end := d.scan.At()
	d.scan.Seek(at)
	v, err := d.value("")
	d.scan.Seek(end)
	if err != nil {
		return telemetry.TextValue(string(d.source[at:end]))
	}
	return v
}
