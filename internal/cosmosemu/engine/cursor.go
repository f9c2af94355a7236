package engine

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"

	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/cosmosemu/sql"
)

// cursor is where a query goes on: the content of a continuation token. It depends on nothing that
// the Server holds, so it outlives a restart.
type cursor struct {
	Container string       `json:"c"`           // resource id
	Query     uint64       `json:"q"`           // hash of the text and the parameters
	At        []byte       `json:"k"`           // in key order: where to go on; sorted: the last item given
	Inside    int          `json:"i,omitempty"` // rows of the item At that were given, when a page ended inside it
	Sorted    []sortedJSON `json:"v,omitempty"` // sorted: its ORDER BY values
	Rows      int          `json:"n"`           // rows given or skipped so far
}

// sortedJSON is an ORDER BY value, absent for undefined.
type sortedJSON struct {
	Item json.RawMessage `json:"item,omitempty"`
}

func queryHash(body []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(body) // never fails
	return h.Sum64()
}

func (c cursor) token() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic("engine: encode a continuation: " + err.Error()) // plain numbers, bytes and JSON
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor reads a continuation token and holds it against the query that it came with.
func parseCursor(token, container string, query uint64) (cursor, error) {
	if token == "" {
		return cursor{Container: container, Query: query}, nil
	}
	var c cursor
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil || c.Rows < 0 || c.Inside < 0 || len(c.At) == 0 {
		return cursor{}, refusal.BadRequest("the continuation token is malformed")
	}
	if c.Container != container || c.Query != query {
		return cursor{}, refusal.BadRequest("the continuation token belongs to another query or container")
	}
	return c, nil
}

// values returns the ORDER BY values of the last item given; there must be as many as the query sorts by.
func (c cursor) values(n int) ([]sql.Value, error) {
	if len(c.Sorted) != n {
		return nil, refusal.BadRequest("the continuation token is malformed")
	}
	out := make([]sql.Value, n)
	for i, s := range c.Sorted {
		if s.Item == nil {
			continue
		}
		v, err := fastjson.ParseBytes(s.Item)
		if err != nil {
			return nil, refusal.BadRequest("the continuation token is malformed")
		}
		out[i] = sql.JSONValue(v)
	}
	return out, nil
}

// sortedAt notes the ORDER BY values of the last item given.
func (c *cursor) sortedAt(values []sql.Value) {
	c.Sorted = make([]sortedJSON, len(values))
	for i, v := range values {
		if v.Kind() != sql.Undefined {
			c.Sorted[i].Item = v.Append(nil)
		}
	}
}
