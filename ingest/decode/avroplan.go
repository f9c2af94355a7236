package decode

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hamba/avro/v2"
)

// avroNode is a type of Avro, as far as reading needs it.
type avroNode struct {
	kind    avro.Type
	size    int         // bytes of a fixed
	scale   int         // decimal's; -1 where bytes are no decimal
	perUnit int64       // units of a timestamp in a millisecond, or 0 for other types
	symbols []string    // enum's
	names   [][]byte    // names of a record's fields
	nodes   []*avroNode // types of a record's fields, a union's branches, an array's items or a map's values
	message bool        // a record that has the shape of a message: a property called values, with the values
}

// compileAvro makes a tree of a schema. It has a loop where the schema has one.
func compileAvro(s Schema) (*avroNode, error) {
	cache := &avro.SchemaCache{}
	for _, text := range s.References {
		if _, err := avro.ParseWithCache(text, "", cache); err != nil {
			return nil, fmt.Errorf("a referenced schema: %w", err)
		}
	}
	parsed, err := avro.ParseWithCache(s.Text, "", cache)
	if err != nil {
		return nil, err
	}
	c := avroCompiler{known: map[avro.Schema]*avroNode{}}
	root, err := c.node(parsed)
	if err != nil {
		return nil, err
	}
	if !root.holds(avro.Record, 0) {
		return nil, errors.New("it is neither of a record nor of an array of records")
	}
	return root, nil
}

// holds reports whether a node is of a kind, or an array or union of it.
func (n *avroNode) holds(kind avro.Type, depth int) bool {
	if n.kind == kind {
		return true
	}
	if n.kind != avro.Union && (n.kind != avro.Array || depth > 0) {
		return false
	}
	return slices.ContainsFunc(n.nodes, func(x *avroNode) bool { return x.holds(kind, depth+1) })
}

type avroCompiler struct{ known map[avro.Schema]*avroNode }

func (c *avroCompiler) node(s avro.Schema) (*avroNode, error) {
	if ref, ok := s.(*avro.RefSchema); ok {
		s = ref.Schema()
	}
	if known := c.known[s]; known != nil {
		return known, nil
	}
	n := &avroNode{kind: s.Type(), scale: -1}
	c.known[s] = n
	switch s := s.(type) {
	case *avro.PrimitiveSchema:
		n.logical(s.Logical())
		if text, _ := s.Prop("logicalType").(string); text == "timestamp-nanos" || text == "local-timestamp-nanos" {
			n.perUnit = 1e6
		}
	case *avro.FixedSchema:
		n.size = s.Size()
		n.logical(s.Logical())
	case *avro.EnumSchema:
		n.symbols = s.Symbols()
	case *avro.ArraySchema:
		return n, c.add(n, s.Items())
	case *avro.MapSchema:
		return n, c.add(n, s.Values())
	case *avro.UnionSchema:
		return n, c.add(n, s.Types()...)
	case *avro.RecordSchema:
		for _, f := range s.Fields() {
			n.names = append(n.names, []byte(f.Name()))
			if err := c.add(n, f.Type()); err != nil {
				return nil, err
			}
			if f.Name() == "values" {
				last := n.nodes[len(n.nodes)-1]
				n.message = last.holds(avro.Map, 1) || last.holds(avro.Record, 1)
			}
		}
	case *avro.NullSchema:
	default:
		return nil, fmt.Errorf("type %q", s.Type())
	}
	return n, nil
}

func (c *avroCompiler) add(n *avroNode, schemas ...avro.Schema) error {
	for _, s := range schemas {
		x, err := c.node(s)
		if err != nil {
			return err
		}
		n.nodes = append(n.nodes, x)
	}
	return nil
}

func (n *avroNode) logical(l avro.LogicalSchema) {
	if l == nil {
		return
	}
	switch l.Type() {
	case avro.TimestampMillis, avro.LocalTimestampMillis:
		n.perUnit = 1
	case avro.TimestampMicros, avro.LocalTimestampMicros:
		n.perUnit = 1e3
	case avro.Decimal:
		if d, ok := l.(*avro.DecimalLogicalSchema); ok {
			n.scale = d.Scale()
		}
	}
}
