package cosmosemu

import (
	"bytes"
	"net/http"

	"binnacle/internal/cosmosemu/sql"
)

// bounds refuses an item that is larger, deeper or has a longer key than it may.
func (d *document) bounds(l Limits) *fault {
	if len(d.json) > l.ItemBytes {
		f := badRequest("the item has %d bytes, more than %d", len(d.json), l.ItemBytes)
		f.status = http.StatusRequestEntityTooLarge
		return f
	}
	for _, v := range d.key {
		if v.Kind() == sql.String && len(v.Bytes()) > l.KeyValueBytes {
			return badRequest("a value of the partition key has %d bytes, more than %d", len(v.Bytes()), l.KeyValueBytes)
		}
	}
	if deeper(d.json, l.Nesting) {
		return badRequest("objects and arrays are nested more than %d deep", l.Nesting)
	}
	return nil
}

// deeper tells whether valid JSON is nested deeper than most. What has fewer brackets than that, as
// nearly all has, is not looked at closely.
func deeper(json []byte, most int) bool {
	if bytes.Count(json, []byte{'{'})+bytes.Count(json, []byte{'['}) <= most {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(json); i++ {
		switch c := json[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
