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

// properties are what was found in an object beside its values.
type properties struct {
	path                 []byte // of the property that is read, its names joined by _
	values               bool   // all that is read is a value, whatever its name
	tenant, device, time found
	millis               int64
	labels, tags         []telemetry.Label
}

// found is the best of several properties for one thing.
type found struct {
	is   bool
	rank int
	text string
}

func (f *found) offer(rank int, text string) bool {
	if f.is && f.rank <= rank {
		return false
	}
	*f = found{true, rank, text}
	return true
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

func (d *objects) propertyText(c propertyRole, text string) error {
	p := &d.properties
	names, to := &d.labelNames, &p.labels
	switch c.role {
	case tenantRole:
		p.tenant.offer(c.rank, text)
		return nil
	case deviceRole:
		p.device.offer(c.rank, text)
		return nil
	case tagRole:
		names, to = &d.tagNames, &p.tags
	}
	name, err := names.get(p.path)
	if err != nil {
		return faultf(Name, "%v", err)
	}
	*to = append(*to, telemetry.Label{Name: name, Value: text})
	return nil
}

func (d *objects) propertyTime(c propertyRole, millis int64) {
	if d.properties.time.offer(c.rank, "") {
		d.properties.millis = millis
	}
}

// into completes a reading with what was found, where the message has no such part of its own.
func (p *properties) into(d *Decoder, m *message) error {
	r := &m.Reading
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
		r.Time, m.timed = p.millis, true
	}
	if r.Labels == nil {
		r.Labels = d.labelSets.get(p.labels, &d.key)
	}
	if r.Tags == nil {
		r.Tags = d.labelSets.get(p.tags, &d.key)
	}
	return nil
}

func (d *jsonReader) property(name []byte, depth int) error {
	if depth > maxDepth {
		return d.scan.Fail("nested too deep")
	}
	p := &d.properties
	before := p.enter(name)
	defer p.leave(before)
	c := d.roles[string(p.path)]
	switch next := d.scan.Next(); {
	case c.role == timeRole:
		millis, ok, err := d.time()
		if ok {
			d.propertyTime(c, millis)
		}
		return err
	case c.role != valueRole:
		text, err := d.anyScalar()
		if err != nil || text == "" {
			return err
		}
		return d.propertyText(c, text)
	case next == '{':
		return d.scan.Object(func(name []byte) error { return d.property(name, depth+1) })
	case next == '[':
		return d.scan.Skip(depth)
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
	if err := d.scan.Skip(0); err != nil {
		return "", err
	}
	text, _ := d.texts.get(d.source[from:d.scan.At()])
	return text, nil
}
