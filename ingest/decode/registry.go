package decode

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Schema is what a registry has under an id.
type Schema struct {
	Type       string // AVRO or JSON; others are not read here
	Text       string
	References []string // texts of the schemas that it refers to, each behind the ones that it refers to itself
	Fault      string   // why there is no schema; empty when there is one
}

// Schemas knows schemas by their ids, from memory: it has no I/O.
type Schemas interface {
	// Schema returns the registry's schema with an id. known is false until the registry has answered: the record is
	// not taken then, and decoded again when the schema is known.
	Schema(id uint32) (s Schema, known bool)
}

// UnknownSchema asks for a schema to be fetched; then the record is decoded again. A registry that is down makes no
// dead letters.
type UnknownSchema struct{ ID uint32 }

// Error names the schema.
func (e *UnknownSchema) Error() string { return fmt.Sprintf("schema %d is not known yet", e.ID) }

// wireHeader is the length of the prefix of a payload with a schema in a registry: a zero and the schema's id.
const wireHeader = 5

func looksRegistered(value []byte) bool { return len(value) >= wireHeader && value[0] == 0 }

// registryReader reads payloads with schemas in a registry.
type registryReader struct {
	avroReader
	plans map[uint32]*plan
}

func newRegistryReader(d *Decoder) reader {
	return &registryReader{avroReader: avroReader{objects: newObjects(d)}, plans: map[uint32]*plan{}}
}

func (d *registryReader) read(r Record, _ map[string]string) { d.registered(r.Value) }

func (d *registryReader) registered(value []byte) {
	if !looksRegistered(value) {
		d.refuseRecord(faultf(Undecodable, "the payload does not begin with a zero and the id of a schema"))
		return
	}
	if d.opts.Schemas == nil {
		d.refuseRecord(faultf(BadSchema, "the payload has a schema in a registry, and none is configured"))
		return
	}
	id := binary.BigEndian.Uint32(value[1:])
	if id > math.MaxInt32 {
		d.refuseRecord(faultf(BadSchema, "schema %d: ids of registries are at most %d", id, math.MaxInt32))
		return
	}
	p := d.plans[id]
	if p == nil {
		s, known := d.opts.Schemas.Schema(id)
		if !known {
			d.reset()
			d.out.Unknown = &UnknownSchema{id}
			return
		}
		if s.Fault != "" {
			d.refuseRecord(faultf(BadSchema, "schema %d: %.200s", id, s.Fault))
			return
		}
		p = planOf(s)
		if len(d.plans) >= maxPlans {
			clear(d.plans)
		}
		d.plans[id] = p
	}
	switch {
	case p.fault != "":
		d.refuseRecord(faultf(BadSchema, "schema %d: %.200s", id, p.fault))
	case p.json:
		d.readerOf(JSON).(*jsonReader).json(value[wireHeader:], true)
	default:
		d.avro(value[wireHeader:], p.root)
	}
}

// maxPlans bounds the schemas that a Decoder remembers.
const maxPlans = 1 << 10

// plan is how payloads of a schema are read. A schema never changes under its id.
type plan struct {
	json  bool
	root  *avroNode
	fault string
}

func planOf(s Schema) *plan {
	switch s.Type {
	case "JSON":
		return &plan{json: true}
	case "AVRO", "":
		root, err := compileAvro(s)
		if err != nil {
			return &plan{fault: err.Error()}
		}
		return &plan{root: root}
	}
	return &plan{fault: fmt.Sprintf("its type %q is neither AVRO nor JSON", s.Type)}
}
