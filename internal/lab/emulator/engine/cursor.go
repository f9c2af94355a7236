package engine

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"
	"binnacle/sharding/epk"
)

// cursor marks where a query resumes: the content of a continuation token, in the service's form. It depends on
// nothing that the Server holds, so it outlives a restart.
type cursor struct {
	passed
	// Later lists the passed parts of later ranges: a split has moved them there.
	Later []passed
	Rows  int // rows given or skipped so far
	Pages int // given so far
	placed

	// rid is the container's resource id.
	rid []byte
}

// passed is how far a query has come in a range of effective partition keys.
type passed struct {
	Made uint64 // number of the last item passed
	// Min and Max bound the range; both "": nothing has been passed.
	Min, Max string
}

// placed marks where a query resumes when the last item alone does not tell the place. The service has such a
// part too, in an unknown form.
type placed struct {
	Query uint64 `json:"q"` // hash of the text and the parameters
	// At is, in the order of ids, where to resume; in the order of properties, the last item given.
	At     []byte       `json:"k,omitempty"`
	Inside int          `json:"i,omitempty"` // rows of the last item that were given, when a page ended inside it
	Sorted []sortedJSON `json:"v,omitempty"` // sorted: its ORDER BY values
}

// sortedJSON is an ORDER BY value, absent for undefined.
type sortedJSON struct {
	Item json.RawMessage `json:"item,omitempty"`
}

type tokenJSON struct {
	Token string    `json:"token"`
	Range rangeJSON `json:"range"`
}

type rangeJSON struct {
	Min string `json:"min"`
	Max string `json:"max"`
}

func queryHash(body []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(body) // never fails
	return h.Sum64()
}

// tokenForm has the parts of a token: the last item, pages and rows so far, and what is the same in all.
const tokenForm = "-RID:~%s#RT:%d#TRC:%d#ISV:2#IEO:65599#QCF:8"

// token returns the continuation. The first is an object, later ones are lists of one object, as the service
// sends them.
func (c cursor) token() string {
	list := []tokenJSON{c.tokenOf(c.passed)}
	if len(c.At) > 0 || c.Inside > 0 {
		list[0].Token += "#FPC:" + base64.RawURLEncoding.EncodeToString(encoded(c.placed))
	}
	for _, p := range c.Later {
		list = append(list, c.tokenOf(p))
	}
	if c.Pages > 1 || len(list) > 1 {
		return string(encoded(list))
	}
	return string(encoded(list[0]))
}

func (c cursor) tokenOf(p passed) tokenJSON {
	return tokenJSON{
		Token: fmt.Sprintf(tokenForm, appendItemRID(nil, c.rid, p.Made), c.Pages, c.Rows),
		Range: rangeJSON{p.Min, cmp.Or(p.Max, epk.Max)},
	}
}

// encoded returns plain numbers, strings and JSON as JSON.
func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("engine: encode JSON: " + err.Error())
	}
	return b
}

func errCursor() error { return refusal.BadRequest("the continuation token is malformed") }

// parseCursor reads a continuation token and holds it against the container and the query that it came with.
func parseCursor(token string, rid []byte, query uint64) (cursor, error) {
	c := cursor{rid: rid, placed: placed{Query: query}}
	if token == "" {
		return c, nil
	}
	var list []tokenJSON
	if json.Unmarshal([]byte(token), &list) != nil || len(list) == 0 {
		list = make([]tokenJSON, 1)
		if json.Unmarshal([]byte(token), &list[0]) != nil {
			return cursor{}, errCursor()
		}
	}
	for i, t := range slices.Backward(list) {
		c.Min, c.Max = t.Range.Min, t.Range.Max
		for part := range strings.SplitSeq(t.Token, "#") {
			name, text, _ := strings.Cut(part, ":")
			if !c.read(name, text) {
				return cursor{}, errCursor()
			}
		}
		if i > 0 {
			c.Later = append(c.Later, c.passed)
		}
	}
	switch {
	case c.Pages < 1 || c.Rows < 0 || c.Inside < 0:
		return cursor{}, errCursor()
	case string(c.rid) != string(rid) || c.Query != query:
		return cursor{}, refusal.BadRequest("the continuation token belongs to another query or container")
	}
	return c, nil
}

// read takes over one part of a token; it reports whether it is well formed.
func (c *cursor) read(name, text string) bool {
	var err error
	switch name {
	case "-RID":
		raw := ridBytes(strings.TrimPrefix(text, "~"))
		if len(raw) != containerRID+8 {
			return false
		}
		c.rid, c.Made = raw[:containerRID], binary.LittleEndian.Uint64(raw[containerRID:])
	case "RT":
		c.Pages, err = strconv.Atoi(text)
	case "TRC":
		c.Rows, err = strconv.Atoi(text)
	case "FPC":
		var b []byte
		if b, err = base64.RawURLEncoding.DecodeString(text); err == nil {
			err = json.Unmarshal(b, &c.placed)
		}
	}
	return err == nil
}

// values returns the ORDER BY values of the last item given; there must be as many as the query sorts by.
func (c cursor) values(n int) ([]sql.Value, error) {
	if len(c.Sorted) != n {
		return nil, errCursor()
	}
	out := make([]sql.Value, n)
	for i, s := range c.Sorted {
		if s.Item == nil {
			continue
		}
		v, err := fastjson.ParseBytes(s.Item)
		if err != nil {
			return nil, errCursor()
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
