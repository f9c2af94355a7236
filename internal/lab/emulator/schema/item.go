// Package schema has what a container says of its items, its partition key, unique keys, time to live and indexing
// policy, and takes an item apart by it. It must not know where containers and items are kept, nor how they are asked
// for.
package schema

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"unicode/utf8"

	"binnacle/internal/lab/emulator/jsonvalue"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"

	"github.com/valyala/fastjson"
)

// Limits of an item (Azure Cosmos DB docs, concepts-limits).
const (
	maxItemBytes = 2 << 20
	maxIDBytes   = 1023
	maxIDRunes   = 255
)

// Item is an item that a client sends, taken apart. It is reused from request to request: what it
// holds is valid until its next parse.
type Item struct {
	JSON    []byte // minified as far as it was sent so, without system properties, an object
	ID      []byte
	Key     Key
	TTL     int32
	Terms   []uint64
	Covered []byte
	Unique  []byte // digests, one for each unique key
	jsonvalue.Shape

	parser  fastjson.Parser
	rebuilt []byte
}

// Parse takes an item apart under a container's definition.
func (it *Item) Parse(body []byte, def *Definition) error {
	if len(body) > maxItemBytes {
		return refusal.TooLarge("the item is larger than 2 MB")
	}
	body = jsonvalue.Repair(bytes.TrimSpace(body))
	doc, err := jsonvalue.Parse(&it.parser, body)
	switch {
	case err != nil:
		return err
	case doc.Type() != fastjson.TypeObject:
		return refusal.BadRequest("the body is not a JSON object")
	}
	if it.Shape, err = jsonvalue.ShapeOf(doc); err != nil {
		return err
	}
	if !it.Plain {
		body = jsonvalue.AppendKept(nil, doc)
		if doc, err = jsonvalue.Parse(&it.parser, body); err != nil {
			return err
		}
	}
	if it.JSON, err = it.minify(body, doc); err != nil {
		return err
	}
	object := doc.GetObject()
	if err := it.setID(object.Get("id")); err != nil {
		return err
	}
	if it.TTL, err = parseTTL(object.Get("ttl")); err != nil {
		return err
	}
	it.Key = def.keyOf(it.Key, doc)
	it.Terms = def.Policy.Terms(it.Terms, doc)
	it.Unique = def.Unique.Digests(it.Unique[:0], doc)
	it.Covered = append(it.Covered[:0], byte(len(def.covered)))
	for _, c := range def.covered {
		it.Covered = appendCovered(it.Covered, c.path.In(doc))
	}
	return nil
}

// minify returns the item without white space and without system properties. Most clients send it so.
func (it *Item) minify(body []byte, doc *fastjson.Value) ([]byte, error) {
	object := doc.GetObject()
	if hasSystem(object) {
		it.rebuilt, _ = AppendPlain(it.rebuilt[:0], object)
		return it.rebuilt, nil
	}
	if !spaced(body) {
		return body, nil
	}
	var out bytes.Buffer
	if err := json.Compact(&out, body); err != nil {
		return nil, refusal.BadRequest("the body is not valid JSON: %v", err)
	}
	return out.Bytes(), nil
}

// spaced reports whether JSON has white space between its tokens, in the ways that encoders write it. A
// blank inside a string may be taken for one: that costs time only.
func spaced(body []byte) bool {
	for _, s := range []string{"\n", "\t", "\r", ": ", ", ", "{ ", "[ "} {
		if bytes.Contains(body, []byte(s)) {
			return true
		}
	}
	return false
}

func (it *Item) setID(v *fastjson.Value) error {
	if v == nil || v.Type() != fastjson.TypeString {
		return refusal.BadRequest("the item has no id, or one that is not a string")
	}
	it.ID = append(it.ID[:0], v.GetStringBytes()...)
	return CheckID(string(it.ID))
}

// CheckID refuses the ids that the service does not take. It documents / and \ as forbidden, but takes
// them: azcosmos's tests pin that. See Server.RoutingGateway.
func CheckID(id string) error {
	if id == "" || len(id) > maxIDBytes || utf8.RuneCountInString(id) > maxIDRunes {
		return refusal.BadRequest("the id of an item has 1 to %d characters, here. "+
			"Ensure to provide a unique non-empty string less than '%d' characters.", maxIDRunes, maxIDBytes+1)
	}
	return nil
}

func parseTTL(v *fastjson.Value) (int32, error) {
	if v == nil {
		return 0, nil
	}
	n, err := v.Int64()
	if err != nil || n != -1 && (n < 1 || n > math.MaxInt32) {
		return 0, refusal.BadRequest("ttl must be -1 or a number of seconds from 1 to %d", math.MaxInt32)
	}
	return int32(n), nil
}

// Bounds of an item in addition to maxItemBytes (Azure Cosmos DB docs, concepts-limits): the length of a string
// in the partition key, and the depth of nested objects and arrays.
const (
	maxKeyValueBytes = 2048
	maxNesting       = 128
)

// Check refuses an item that is larger, deeper or has a longer key than it may.
func (it *Item) Check() *refusal.Error {
	if len(it.JSON) > maxItemBytes {
		return refusal.TooLarge("the item has %d bytes, more than %d", len(it.JSON), maxItemBytes)
	}
	for _, v := range it.Key {
		if v.Kind() == sql.String && len(v.Bytes()) > maxKeyValueBytes {
			return refusal.BadRequest("a value of the partition key has %d bytes, more than %d", len(v.Bytes()),
				maxKeyValueBytes)
		}
	}
	if it.Depth > maxNesting {
		return refusal.BadRequest("objects and arrays are nested more than %d deep", maxNesting)
	}
	return nil
}

// system are the properties that the service sets; a client's values for them are ignored.
var system = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}

// IsSystem reports whether the service sets a property of items.
func IsSystem(name string) bool { return slices.Contains(system, name) }

func hasSystem(object *fastjson.Object) bool {
	return slices.ContainsFunc(system, func(name string) bool { return object.Get(name) != nil })
}

// DeleteSystem removes the system properties of an item.
func DeleteSystem(doc *fastjson.Value) {
	for _, name := range system {
		doc.Del(name)
	}
}

// AppendPlain appends an item without its system properties, minified. tail is the offset within the appended
// item, at a comma, of the members that follow the system properties, which patches have added; 0: no member
// follows.
func AppendPlain(dst []byte, object *fastjson.Object) (out []byte, tail int) {
	head, late := append(dst, '{'), []byte(nil)
	system := false
	object.Visit(func(key []byte, v *fastjson.Value) {
		if IsSystem(string(key)) {
			system = true
			return
		}
		part := &head
		if system {
			part = &late
		}
		if len(*part) != len(dst)+1 || system {
			*part = append(*part, ',')
		}
		*part = append(jsonvalue.AppendString(*part, key), ':')
		*part = jsonvalue.Append(*part, v)
	})
	if len(late) > 0 {
		tail = len(head) - len(dst)
	}
	return append(append(head, late...), '}'), tail
}

// maxComputed is the most computed properties of a container (Azure Cosmos DB docs, computed-properties).
const maxComputed = 20

// computed reads the computed properties of a container. It returns nil when there are none.
func computed(raw json.RawMessage) (*sql.Cache, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var list []struct {
		Name  string `json:"name"`
		Query string `json:"query"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, refusal.BadRequest("One of the specified inputs is invalid: computedProperties is not a list of " +
			"objects with name and query")
	}
	if len(list) > maxComputed {
		return nil, refusal.BadRequest("a container has at most %d computed properties, not %d", maxComputed, len(list))
	}
	out := &sql.Cache{Computed: sql.Computed{}}
	for _, p := range list {
		switch {
		case p.Name == "" || p.Name == "id" || IsSystem(p.Name) || out.Computed[p.Name] != nil:
			return nil, refusal.BadRequest("the name %q of a computed property is empty, reserved or used twice", p.Name)
		case !out.Computed.Add(p.Name, p.Query):
			return nil, refusal.BadRequest("the query of the computed property %s is not SELECT VALUE of an expression "+
				"over one item, FROM that item", p.Name)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return out, nil
}
