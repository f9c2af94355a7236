package schema

import (
	"bytes"
	"encoding/json"
	"math"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/jsonvalue"
	"binnacle/internal/lab/emulator/refusal"
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
