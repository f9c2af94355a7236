package rejected

import (
	"bytes"
	"slices"
	"strings"

	"binnacle/internal/stream/deadletter"
	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsonscan"
)

// classifyBroken looks for the tenant of a text that is nearly JSON, such as with Python's NaN: in the properties
// that would have named it, at any place in the text. All of them must name the same one. One object is shown to its
// tenant; an array may have elements of others, so that the tenant learns only that it was refused. Where the text
// mentions no tenant, that holds for the one of the record's key.
func (c *classifier) classifyBroken(e *entry, l *deadletter.DeadLetter, piece *[]byte) {
	text := bytes.TrimLeft(l.Value, " \t\r\n")
	if c.topic.Tenant != "" || len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return
	}
	tenant, mentioned, ok := named(text, c.tenantNames())
	if !ok || mentioned && telemetry.CheckTenant(tenant) != nil {
		return
	}
	device, _, ok := named(text, c.deviceNames())
	if !ok || telemetry.CheckDevice(device) != nil {
		device = ""
	}
	isObject := text[0] == '{'
	switch {
	case mentioned && (isObject || c.opts.Tenant == ""):
		e.tenant, e.device = tenant, device
	case !mentioned && c.mayMention(text):
	case !mentioned && c.opts.Tenant != "" && isObject:
		e.tenant, e.device = c.opts.Tenant, device
	case !mentioned && c.opts.Tenant == "":
		of, id, _ := strings.Cut(string(l.Key), "/")
		if telemetry.CheckTenant(of) == nil && telemetry.CheckDevice(id) == nil {
			e.tenant, e.device, isObject = of, id, false
		}
	}
	if e.tenant != "" && !isObject {
		*piece, e.detail, e.truncated = nil, "", true
	}
}

// named returns the text of the properties of some names, at any depth of a text that is nearly JSON. It is not ok
// where they have different texts, or where it is not clear what the text says.
func named(text []byte, names []string) (value string, found, ok bool) {
	n, mentions := 0, 0
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		mentions += bytes.Count(text, []byte(`"`+name+`"`))
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		name, next := quoted(text, i)
		colon := next + blanks(text[next:])
		if i = next - 1; colon >= len(text) || text[colon] != ':' {
			continue
		}
		if bytes.IndexByte(name, '\\') >= 0 {
			return "", false, false // it may be any
		}
		if !slices.Contains(names, string(name)) {
			continue
		}
		n++
		at := colon + 1 + blanks(text[colon+1:])
		if bytes.HasPrefix(text[at:], []byte("null")) {
			continue
		}
		if at >= len(text) || text[at] != '"' {
			return "", false, false
		}
		own, end := quoted(text, at)
		if found && string(own) != value {
			return "", false, false
		}
		value, found, i = string(own), true, end-1
	}
	return value, found, n == mentions
}

// quoted returns the text between the quotation mark at a place and the next one, and the place behind that.
func quoted(text []byte, at int) (inside []byte, next int) {
	for i := at + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[at+1 : i], i + 1
		}
	}
	return text[at+1:], len(text)
}

func blanks(b []byte) int {
	for i, c := range b {
		if !jsonscan.Blank(c) {
			return i
		}
	}
	return len(b)
}

// mayMention reports whether a text may name its tenant where named does not look: in an envelope of IoT Hub, in a tag,
// or in an object within another, with a name that is joined of both.
func (c *classifier) mayMention(text []byte) bool {
	lower := bytes.ToLower(text)
	names := []string{"body", "properties", "systemproperties", "enqueuedtimeutc", strings.ToLower(c.opts.TenantTag)}
	for _, name := range c.tenantNames() {
		parts := strings.Split(strings.ToLower(name), "_")
		names = append(names, parts[len(parts)-1])
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return name != "" && bytes.Contains(lower, []byte(`"`+name+`"`))
	})
}
