package decode

import (
	"encoding/binary"
	"errors"
	"math"
	"math/big"

	"binnacle/internal/telemetry"

	"github.com/hamba/avro/v2"
)

// errAvro is a payload that is not what its schema says.
var errAvro = errors.New("the payload is not what its schema says")

// avroCursor walks over a payload by its schema. The values are read by ourselves, because the library makes objects
// of them that the columns do not need; the schema, which is the hard part, is read by the library.
type avroCursor struct {
	text  []byte
	at    int
	steps int // bounds the work: what takes no bytes can be claimed to be there very often
	depth int // how many records, arrays and maps stand around it
}

// avroReader reads payloads of a compiled schema.
type avroReader struct {
	objects
	binary avroCursor
}

func (d *avroReader) avro(payload []byte, root *avroNode) {
	d.binary = avroCursor{text: payload, steps: 1<<16 + 16*len(payload)}
	a := &d.binary
	index := 0
	err := d.avroMessages(root, &index)
	if err == nil && a.at < len(a.text) {
		err = errors.New("more after the end")
	}
	if err != nil {
		d.refuseRecord(faultf(Undecodable, "not Avro: %v", err))
	}
}

func (d *avroReader) avroMessages(n *avroNode, index *int) error {
	a := &d.binary
	n, err := a.branch(n)
	if err == nil {
		err = d.made.check()
	}
	switch {
	case err != nil:
		return err
	case n.kind == avro.Array && a.depth == 0:
		return a.blocks(func() error { return d.avroMessages(n.nodes[0], index) })
	case n.kind != avro.Record:
		d.addBad(*index, faultf(Undecodable, "a message is a record or an array of records"))
		*index++
		return a.skip(n)
	}
	begin := a.at
	err = a.inside(func() error { return d.avroMessage(n, *index) })
	if f, ok := errors.AsType[*fault](err); ok {
		d.addBad(*index, f)
		a.at = begin
		err = a.skip(n)
	}
	*index++
	return err
}

// avroMessage reads a record: one that has the shape of a message as a message, any other one as a flat object.
func (d *avroReader) avroMessage(n *avroNode, index int) error {
	p := &d.properties
	p.clear()
	var m unfinished
	d.fields.start()
	for i, name := range n.names {
		if !n.message {
			if err := d.avroProperty(name, n.nodes[i]); err != nil {
				return err
			}
			continue
		}
		if err := d.avroPart(string(name), n.nodes[i]); err != nil {
			return err
		}
	}
	if err := d.complete(&m, n.message); err != nil {
		return err
	}
	return d.finish(index, &m)
}

func (d *avroReader) avroPart(name string, n *avroNode) error {
	a := &d.binary
	switch name {
	case "tenant":
		return d.avroText(propertyRole{role: tenantRole}, n)
	case "device":
		return d.avroText(propertyRole{role: deviceRole}, n)
	case "ts":
		return d.avroTime(propertyRole{role: timeRole}, n)
	case "values":
		d.properties.values = true
		err := d.avroPairs(n, d.avroProperty)
		d.properties.values = false
		return err
	case "labels", "tags":
		role := labelRole
		if name == "tags" {
			role = tagRole
		}
		return d.avroPairs(n, func(name []byte, n *avroNode) error {
			before := d.properties.enter(name)
			defer d.properties.leave(before)
			return d.avroText(propertyRole{role: role}, n)
		})
	}
	return a.skip(n)
}

// avroPairs reads a map, or a record as if it were one; anything else is passed over.
func (d *avroReader) avroPairs(n *avroNode, each func(name []byte, n *avroNode) error) error {
	a := &d.binary
	n, err := a.branch(n)
	if err != nil {
		return err
	}
	switch n.kind {
	case avro.Map:
		return a.blocks(func() error {
			name, err := a.chunk()
			if err != nil {
				return err
			}
			return each(name, n.nodes[0])
		})
	case avro.Record:
		return a.inside(func() error {
			for i, name := range n.names {
				if err := each(name, n.nodes[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return a.skip(n)
}

func (d *avroReader) avroProperty(name []byte, n *avroNode) error {
	before := d.properties.enter(name)
	defer d.properties.leave(before)
	if err := d.made.part(before); err != nil { // the whole path is looked up
		return err
	}
	a := &d.binary
	n, err := a.branch(n)
	if err != nil {
		return err
	}
	c := propertyRole{}
	if !d.properties.values {
		c = d.roles[string(d.properties.path)]
	}
	switch {
	case n.kind == avro.Record || n.kind == avro.Map:
		return d.avroPairs(n, d.avroProperty)
	case c.role == timeRole:
		return d.avroTime(c, n)
	case c.role != valueRole:
		return d.avroText(c, n)
	}
	v, ok, err := d.avroScalar(n)
	if err != nil || !ok {
		return err
	}
	metric, err := d.metric(d.fields.count, d.properties.path)
	if err != nil {
		return err
	}
	d.put(metric, v)
	return nil
}

func (d *avroReader) avroText(c propertyRole, n *avroNode) error {
	v, ok, err := d.avroScalar(n)
	if err != nil || !ok || v.Kind() == 0 {
		return err
	}
	text := v.String()
	if v.Kind() == telemetry.Text {
		text = v.Text()
	}
	return d.propertyText(c, d.found(found{text: text, value: v}))
}

// avroTime reads a timestamp, a number since 1970 in the unit of its magnitude, or text in RFC 3339.
func (d *avroReader) avroTime(c propertyRole, n *avroNode) error {
	n, err := d.binary.branch(n)
	if err != nil {
		return err
	}
	v, ok, err := d.avroScalar(n)
	if err != nil || v.Kind() == 0 && ok {
		return err
	}
	switch v.Kind() {
	case telemetry.Int:
		if n.perUnit > 0 {
			return d.propertyTime(c, d.found(found{millis: telemetry.FloorDiv(v.Int(), n.perUnit), value: v}))
		}
		return d.propertyTime(c, d.found(found{millis: telemetry.EpochMillis(v.Int()), value: v}))
	case telemetry.Float:
		f := v.Float()
		if f = math.Floor(f * math.Pow10(telemetry.EpochPlaces(f))); math.Abs(f) < 1<<62 {
			return d.propertyTime(c, d.found(found{millis: int64(f), value: v}))
		}
	case telemetry.Text:
		if t, ok := telemetry.ParseRFC3339(v.Text()); ok {
			return d.propertyTime(c, d.found(found{millis: t.UnixMilli(), value: v}))
		}
	}
	return faultf(Time, "%s is neither a timestamp nor RFC 3339", d.properties.path)
}

// found names the property that is read.
func (d *avroReader) found(f found) found {
	f.name, _ = d.texts.get(d.properties.path)
	return f
}

// avroScalar reads a value; null is none. ok is false for what is no scalar, which is passed over.
func (d *avroReader) avroScalar(n *avroNode) (v telemetry.Value, ok bool, err error) {
	a := &d.binary
	if n, err = a.branch(n); err != nil {
		return v, false, err
	}
	switch n.kind {
	case avro.Null:
		return v, true, nil
	case avro.Boolean:
		b, err := a.take(1)
		return telemetry.BoolValue(err == nil && b[0] != 0), true, err
	case avro.Int, avro.Long:
		i, err := a.long()
		return telemetry.IntValue(i), true, err
	case avro.Float:
		b, err := a.take(4)
		if err != nil {
			return v, true, err
		}
		return telemetry.FloatValue(float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))), true, nil
	case avro.Double:
		b, err := a.take(8)
		if err != nil {
			return v, true, err
		}
		return telemetry.BitsValue(telemetry.Float, binary.LittleEndian.Uint64(b)), true, nil
	case avro.String:
		b, err := a.chunk()
		if err != nil {
			return v, true, err
		}
		text, err := d.checked.get(b)
		if err != nil {
			return v, true, faultf(Undecodable, "%v", err)
		}
		return telemetry.TextValue(text), true, nil
	case avro.Enum:
		i, err := a.long()
		if err != nil || i < 0 || i >= int64(len(n.symbols)) {
			return v, true, errAvro
		}
		return telemetry.TextValue(n.symbols[i]), true, nil
	case avro.Bytes, avro.Fixed:
		if n.scale < 0 {
			break
		}
		b, err := a.opaque(n)
		if err != nil {
			return v, true, err
		}
		return telemetry.FloatValue(decimal(b, n.scale)), true, nil
	}
	return v, false, a.skip(n)
}

// decimal returns the float64 nearest to a two's-complement number of tenths to the power of scale.
func decimal(b []byte, scale int) float64 {
	if len(b) > 64 || scale > 400 {
		return math.NaN()
	}
	unscaled := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		unscaled.Sub(unscaled, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	f, _ := new(big.Rat).SetFrac(unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)).Float64()
	return f
}

func (a *avroCursor) step() error {
	if a.steps--; a.steps < 0 {
		return errAvro
	}
	return nil
}

// branch returns the node itself, or the branch of a union that was written.
func (a *avroCursor) branch(n *avroNode) (*avroNode, error) {
	for n.kind == avro.Union {
		i, err := a.long()
		if err != nil || i < 0 || i >= int64(len(n.nodes)) {
			return n, errAvro
		}
		n = n.nodes[i]
	}
	return n, a.step()
}

func (a *avroCursor) take(n int) ([]byte, error) {
	if n < 0 || n > len(a.text)-a.at {
		return nil, errAvro
	}
	a.at += n
	return a.text[a.at-n : a.at], nil
}

// long reads a zigzag varint, which is that of encoding/binary.
func (a *avroCursor) long() (int64, error) {
	v, n := binary.Varint(a.text[a.at:])
	if n <= 0 {
		return 0, errAvro
	}
	a.at += n
	return v, nil
}

func (a *avroCursor) chunk() ([]byte, error) {
	n, err := a.long()
	if err != nil || n < 0 || n > int64(len(a.text)) {
		return nil, errAvro
	}
	return a.take(int(n))
}

func (a *avroCursor) opaque(n *avroNode) ([]byte, error) {
	if n.kind == avro.Bytes {
		return a.chunk()
	}
	return a.take(n.size)
}

// inside reads a record, array or map.
func (a *avroCursor) inside(read func() error) error {
	if a.depth == maxDepth {
		return errors.New("nested too deep")
	}
	a.depth++
	err := read()
	a.depth--
	return err
}

// blocks reads an array or map and calls item for each item, which must consume it.
func (a *avroCursor) blocks(item func() error) error {
	return a.inside(func() error { return a.allBlocks(item) })
}

func (a *avroCursor) allBlocks(item func() error) error {
	for {
		count, err := a.long()
		if err != nil || count == 0 {
			return err
		}
		if count < 0 {
			count = -count
			if _, err = a.long(); err != nil {
				return err
			}
		}
		if count < 0 || count > int64(a.steps) {
			return errAvro
		}
		for range count {
			if err := a.step(); err != nil {
				return err
			}
			if err := item(); err != nil {
				return err
			}
		}
	}
}

func (a *avroCursor) skip(n *avroNode) error {
	n, err := a.branch(n)
	if err != nil {
		return err
	}
	switch n.kind {
	case avro.Boolean:
		_, err = a.take(1)
	case avro.Int, avro.Long, avro.Enum:
		_, err = a.long()
	case avro.Float:
		_, err = a.take(4)
	case avro.Double:
		_, err = a.take(8)
	case avro.String:
		_, err = a.chunk()
	case avro.Bytes, avro.Fixed:
		_, err = a.opaque(n)
	case avro.Array:
		return a.blocks(func() error { return a.skip(n.nodes[0]) })
	case avro.Map:
		return a.blocks(func() error {
			if _, err := a.chunk(); err != nil {
				return err
			}
			return a.skip(n.nodes[0])
		})
	case avro.Record:
		return a.inside(func() error {
			for _, x := range n.nodes {
				if err := a.skip(x); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return err
}
