package schema

import (
	"slices"

	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/jsonvalue"
)

// system are the properties that the service sets; a client's values for them are ignored.
var system = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}

// IsSystem reports whether the service sets a property of items.
func IsSystem(name string) bool { return slices.Contains(system, name) }

func hasSystem(object *fastjson.Object) bool {
	for _, name := range system {
		if object.Get(name) != nil {
			return true
		}
	}
	return false
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
