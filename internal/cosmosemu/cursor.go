package cosmosemu

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"

	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/sql"
)

// cursor is where a query goes on: the content of a continuation token. It depends on nothing that
// the Server holds, so it outlives a restart.
type cursor struct {
	Container string          `json:"c"`           // resource id
	Query     uint64          `json:"q"`           // hash of the text and the parameters
	At        []byte          `json:"k"`           // in key order: where to go on; sorted: the last item given
	Sorted    json.RawMessage `json:"v,omitempty"` // sorted: its ORDER BY value, absent for undefined
	Rows      int             `json:"n"`           // rows given or skipped so far
}

func queryHash(body []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(body) // never fails
	return h.Sum64()
}

func (c cursor) token() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic("cosmosemu: encode a continuation: " + err.Error()) // plain numbers, bytes and JSON
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
	if err != nil || c.Rows < 0 || len(c.At) == 0 {
		return cursor{}, badRequest("the continuation token is malformed")
	}
	if c.Container != container || c.Query != query {
		return cursor{}, badRequest("the continuation token belongs to another query or container")
	}
	return c, nil
}

// value is the ORDER BY value of the last item given.
func (c cursor) value() (sql.Value, error) {
	if c.Sorted == nil {
		return sql.Value{}, nil
	}
	v, err := fastjson.ParseBytes(c.Sorted)
	if err != nil {
		return sql.Value{}, badRequest("the continuation token is malformed")
	}
	return sql.JSONValue(v), nil
}
