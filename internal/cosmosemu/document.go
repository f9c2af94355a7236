package cosmosemu

import (
	"bytes"
	"encoding/json"
	"math"
	"sync"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/sql"
)

// Limits of an item (Azure Cosmos DB docs, concepts-limits).
const (
	maxItemBytes = 2 << 20
	maxIDBytes   = 1023
	maxIDRunes   = 255
)

// document is an item that a client sends, taken apart. It is reused from request to request: what it
// holds is valid until its next parse.
type document struct {
	json    []byte // minified as far as it was sent so, without system properties, an object
	id      []byte
	key     partitionKey
	ttl     int32
	terms   []uint64
	covered []byte
	unique  []byte // digests, one for each unique key

	parser fastjson.Parser
	keys   fastjson.Parser // of the partition key in the request

	// buffers
	request, rebuilt, names, weightName, bodyName, logName, head, value []byte
}

var documents = sync.Pool{New: func() any { return new(document) }}

// system are the properties that the service sets; a client's values for them are ignored.
var system = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}

// parse takes an item apart under a container's definition.
func (d *document) parse(body []byte, def *definition) error {
	if len(body) > maxItemBytes {
		return &fault{status: 413, message: "the item is larger than 2 MB"}
	}
	body = bytes.TrimSpace(body)
	doc, err := parseObject(&d.parser, body)
	if err != nil {
		return err
	}
	if d.json, err = d.minify(body, doc); err != nil {
		return err
	}
	object := doc.GetObject()
	if err := d.setID(object.Get("id")); err != nil {
		return err
	}
	if d.ttl, err = parseTTL(object.Get("ttl")); err != nil {
		return err
	}
	d.key = def.keyOf(d.key, doc)
	d.terms = def.policy.terms(d.terms, doc)
	d.unique = def.unique.digests(d.unique[:0], doc)
	d.covered = append(d.covered[:0], byte(len(def.covered)))
	for _, c := range def.covered {
		d.covered = appendCovered(d.covered, c.path.In(doc))
	}
	return nil
}

// parseObject parses a JSON object that is valid in every respect.
func parseObject(p *fastjson.Parser, body []byte) (*fastjson.Value, error) {
	doc, err := parseJSON(p, body)
	if err != nil {
		return nil, err
	}
	if doc.Type() != fastjson.TypeObject {
		return nil, badRequest("the body is not a JSON object")
	}
	return doc, nil
}

// parseJSON parses JSON that is valid in every respect. Parsing comes first: it bounds the depth that
// validation then recurses into.
func parseJSON(p *fastjson.Parser, body []byte) (*fastjson.Value, error) {
	doc, err := p.ParseBytes(body)
	if err != nil || fastjson.ValidateBytes(body) != nil || !utf8.Valid(body) {
		return nil, badRequest("the body is not valid JSON")
	}
	return doc, nil
}

// minify gives the item without white space and without system properties. Most clients send it so.
func (d *document) minify(body []byte, doc *fastjson.Value) ([]byte, error) {
	object := doc.GetObject()
	for _, name := range system {
		if object.Get(name) != nil {
			d.rebuilt = withoutSystem(d.rebuilt[:0], object)
			return d.rebuilt, nil
		}
	}
	if !spaced(body) {
		return body, nil
	}
	var out bytes.Buffer
	if err := json.Compact(&out, body); err != nil {
		return nil, badRequest("the body is not valid JSON: %v", err)
	}
	return out.Bytes(), nil
}

// spaced tells whether JSON has white space between its tokens, in the ways that encoders write it. A
// blank inside a string may be taken for one: that costs time only.
func spaced(body []byte) bool {
	for _, s := range []string{"\n", "\t", "\r", ": ", ", ", "{ ", "[ "} {
		if bytes.Contains(body, []byte(s)) {
			return true
		}
	}
	return false
}

func withoutSystem(dst []byte, object *fastjson.Object) []byte {
	dst = append(dst, '{')
	object.Visit(func(key []byte, v *fastjson.Value) {
		for _, name := range system {
			if string(key) == name {
				return
			}
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = sql.AppendString(dst, key)
		dst = append(dst, ':')
		dst = sql.AppendJSON(dst, v)
	})
	return append(dst, '}')
}

func (d *document) setID(v *fastjson.Value) error {
	if v == nil || v.Type() != fastjson.TypeString {
		return badRequest("the item has no id, or one that is not a string")
	}
	d.id = append(d.id[:0], v.GetStringBytes()...)
	return checkID(string(d.id))
}

// checkID refuses the ids that the service does not take. It documents / and \ as forbidden, but takes
// them: azcosmos's tests pin that. See Server.RoutingGateway.
func checkID(id string) error {
	if id == "" || len(id) > maxIDBytes || utf8.RuneCountInString(id) > maxIDRunes {
		return badRequest("the id of an item has 1 to %d characters", maxIDRunes)
	}
	return nil
}

func parseTTL(v *fastjson.Value) (int32, error) {
	if v == nil {
		return 0, nil
	}
	n, err := v.Int64()
	if err != nil || n != -1 && (n < 1 || n > math.MaxInt32) {
		return 0, badRequest("ttl must be -1 or a number of seconds from 1 to %d", math.MaxInt32)
	}
	return int32(n), nil
}
