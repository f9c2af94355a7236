package rejected

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"binnacle/ingest/decode"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/stream/topics"
	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsonscan"
)

// classifier finds the tenant and the device of dead letters. It belongs to one goroutine.
type classifier struct {
	topic   topics.Topic
	opts    decode.Options
	decoder *decode.Decoder
}

// newClassifier makes a classifier for a topic's dead letters. A tenant's topic makes them the tenant's, whatever
// they name.
func newClassifier(opts decode.Options, topic topics.Topic) *classifier {
	opts = opts.ForTopic(topic.Name)
	opts.Set, opts.Schemas = decode.Names{Tenant: topic.Tenant}, nil
	return &classifier{topic, opts, decode.New(opts)}
}

// Limits for the elements of one dead letter: the first are kept one by one, the rest as a count for each tenant.
const (
	maxElements    = 64
	maxRestTenants = 16
)

// entries returns what is kept of a dead letter. Its payload is decoded once, however many elements were refused. The
// payload of an entry with a known tenant holds nothing of other tenants.
func (c *classifier) entries(l *deadletter.DeadLetter) []entry {
	base := entry{index: l.Index, time: -1, count: 1, detail: l.Detail,
		reason: decode.Reason(strings.Clone(string(l.Reason)))}
	if l.Truncated >= 0 || l.Through >= 0 {
		base.count = l.Count()
		return []entry{c.finish(base, l, l.Value)}
	}
	got := c.decoder.Decode(decode.RecordOf(l.Value, l.Headers, max(l.Published, 0)))
	if l.Index == decode.Whole {
		return []entry{c.whole(base, l, got)}
	}
	shown, rest := l.Elements.Split(maxElements)
	readings := map[int][]telemetry.Reading{}
	var more []telemetry.Reading // the rest's readings
	for i, r := range got.Readings {
		if at := got.Index[i]; shown.Has(at) {
			readings[at] = append(readings[at], r)
		} else if rest.Has(at) {
			more = append(more, r)
		}
	}
	objects := c.objects(l, shown, readings)
	var out []entry
	for _, run := range shown {
		for at := run.First; at <= run.Last; at++ {
			e, piece := base, l.Value
			if e.index = at; !e.own(readings[at], &piece) {
				if own, part, ok := c.classifyObject(objects[at]); ok {
					e.tenant, e.device, e.time, piece = own.Tenant, own.Device, own.Time, part
				} else {
					e.time = own.Time
				}
			}
			out = append(out, c.finish(e, l, piece))
		}
	}
	return append(out, c.rest(base, rest, more)...)
}

// whole returns what is kept of a record that was refused as a whole.
func (c *classifier) whole(e entry, l *deadletter.DeadLetter, got decode.Result) entry {
	readings, piece := got.Readings, l.Value
	if len(readings) > 0 && len(got.Bad) > 0 {
		readings = append(readings, telemetry.Reading{}) // the tenant of what is wrong is not known
	}
	if !e.own(readings, &piece) && l.Reason == decode.Undecodable && c.isPlainJSON(l) {
		c.classifyBroken(&e, l, &piece)
	}
	return c.finish(e, l, piece)
}

// own gives an entry the tenant, device, time and piece of readings if all have one tenant, and reports whether there
// are readings.
func (e *entry) own(readings []telemetry.Reading, piece *[]byte) bool {
	if len(readings) == 0 {
		return false
	}
	own := readings[0]
	if slices.IndexFunc(readings, func(r telemetry.Reading) bool { return r.Tenant != own.Tenant }) < 0 {
		e.tenant, e.device, e.time, *piece = own.Tenant, own.Device, own.Time, message(readings)
	}
	return true
}

// rest returns what is kept of the elements beyond the first: how many there are of a tenant, without what is in them.
func (c *classifier) rest(base entry, elements deadletter.Elements, readings []telemetry.Reading) (out []entry) {
	if len(elements) == 0 {
		return nil
	}
	others := base
	others.index, others.count, others.detail, others.tenant = elements[0].First, elements.Count(), "", c.topic.Tenant
	others.truncated = true
	of := map[string]int{}
	for i := range readings {
		r := &readings[i]
		if _, known := of[r.Tenant]; !known && (c.topic.Tenant != "" || len(of) == maxRestTenants) || others.count == 1 {
			continue
		}
		if _, known := of[r.Tenant]; !known {
			of[r.Tenant] = len(out)
			e := others
			e.tenant, e.time, e.count = r.Tenant, r.Time, 0
			out = append(out, e)
		}
		out[of[r.Tenant]].count++
		others.count--
	}
	return append(out, others)
}

func (c *classifier) finish(e entry, l *deadletter.DeadLetter, piece []byte) entry {
	if e.tenant == "" {
		e.tenant = c.topic.Tenant
	}
	if (e.tenant == "" || c.topic.Tenant != "" && e.device == "") && len(l.Key) <= maxKey {
		e.key = string(l.Key)
	}
	e.truncated = e.truncated || l.Truncated >= 0 || len(piece) > maxPayload
	e.payload = string(piece[:min(len(piece), maxPayload)])
	return e
}

// maxKey is the length of the longest tenant/device.
const maxKey = 63 + 1 + 4*200

func message(readings []telemetry.Reading) []byte {
	if len(readings) == 1 {
		return decode.AppendJSON(nil, readings[0])
	}
	out := []byte{'['}
	for i, r := range readings {
		if i > 0 {
			out = append(out, ',')
		}
		out = decode.AppendJSON(out, r)
	}
	return append(out, ']')
}

// objects returns the elements of JSON messages that are no readings, among the elements to show.
func (c *classifier) objects(l *deadletter.DeadLetter, shown deadletter.Elements,
	readings map[int][]telemetry.Reading) map[int]json.RawMessage {
	out := map[int]json.RawMessage{}
	if len(readings) == shown.Count() || !c.isPlainJSON(l) {
		return out
	}
	if !bytes.HasPrefix(bytes.TrimLeft(l.Value, " \t\r\n"), []byte("[")) {
		out[0] = l.Value
		return out
	}
	d, at := json.NewDecoder(bytes.NewReader(l.Value)), 0
	for _, err := d.Token(); err == nil && at <= shown[len(shown)-1].Last && d.More(); at++ {
		var element json.RawMessage
		if err = d.Decode(&element); err == nil && shown.Has(at) {
			out[at] = element
		}
	}
	return out
}

// classifyObject looks for the tenant in an element that is no reading, where that is a JSON object: in the properties
// that would have named it. An element that names two is of no tenant, but may have an event time; -1 if it has none.
func (c *classifier) classifyObject(piece json.RawMessage) (r telemetry.Reading, _ []byte, ok bool) {
	r.Time = -1
	var properties map[string]json.RawMessage
	if json.Unmarshal(piece, &properties) != nil {
		return r, nil, false
	}
	if _, export := properties["resourceMetrics"]; export {
		return r, nil, false
	}
	text := func(names []string) (found string, ok bool) {
		for _, name := range names {
			var s string
			raw, there := properties[name]
			if !there || string(raw) == "null" {
				continue
			}
			if json.Unmarshal(raw, &s) != nil || found != "" && s != found {
				return "", false
			}
			found = s
		}
		return found, true
	}
	r.Time = instant(properties["ts"])
	tenants := c.tenantNames()
	r.Tenant, ok = text(tenants)
	if r.Tenant == "" && !mayNameElsewhere(piece, append(tenants, c.opts.TenantTag)) {
		r.Tenant = c.opts.Tenant
	}
	if c.topic.Tenant != "" {
		r.Tenant, ok = c.topic.Tenant, true
	}
	if !ok || telemetry.CheckTenant(r.Tenant) != nil {
		return r, nil, false
	}
	if r.Device, ok = text(c.deviceNames()); !ok ||
		telemetry.CheckDevice(r.Device) != nil {
		r.Device = ""
	}
	return r, piece, true
}

// tenantNames returns the properties that name the tenant, deviceNames the properties that name the device.
func (c *classifier) tenantNames() []string {
	return withDefaults(c.opts.Object.Tenant, "tenant", "tenantId", "tenant_id")
}

func (c *classifier) deviceNames() []string {
	return withDefaults(c.opts.Object.Device, "device", "deviceId", "device_id")
}

func withDefaults(own []string, otherwise ...string) []string {
	if own == nil {
		own = otherwise
	}
	return append([]string{otherwise[0]}, own...)
}

// mayNameElsewhere reports whether an object may name its tenant where classifyObject does not look: in an envelope of
// IoT Hub, with a body that may be in base64, or anywhere within its properties. Then the default tenant does not get
// it.
func mayNameElsewhere(object []byte, names []string) bool {
	var properties map[string]any
	if json.Unmarshal(object, &properties) != nil {
		return true
	}
	for name, value := range properties {
		switch strings.ToLower(name) {
		case "body", "properties", "systemproperties", "enqueuedtimeutc":
			return true
		}
		if hasProperty(value, behind(names, name), names) {
			return true
		}
	}
	return false
}

// hasProperty reports whether a value has a property of one of some names. Flat objects join all names that lead to it
// with _: below is what is left of the names here.
func hasProperty(value any, below, names []string) bool {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if slices.Contains(names, name) || slices.Contains(below, name) ||
				hasProperty(inner, behind(below, name), names) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return hasProperty(inner, below, names) })
	}
	return false
}

// behind returns what stands in names behind one that leads there.
func behind(names []string, name string) (out []string) {
	for _, n := range names {
		if rest, leads := strings.CutPrefix(n, name); leads && strings.HasPrefix(rest, "_") {
			out = append(out, rest[1:])
		}
	}
	return out
}

// isPlainJSON reports whether the payload may be JSON messages, and nothing around it names a tenant.
func (c *classifier) isPlainJSON(l *deadletter.DeadLetter) bool {
	kind := decode.FirstHeader(l.Headers, "content-type")
	for _, h := range l.Headers {
		if strings.HasPrefix(h.Key, "iothub-") || strings.HasPrefix(h.Key, "x-opt-") {
			return false
		}
	}
	media, _, _ := strings.Cut(strings.ToLower(kind), ";")
	if strings.TrimSpace(media) != "application/json" && kind != "" {
		return false
	}
	return kind != "" || c.opts.Format == "" || c.opts.Format == decode.JSON || c.opts.Format == decode.FlatJSON
}

// instant returns an event time as messages have it, -1 for none.
func instant(raw json.RawMessage) int64 {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if t, ok := telemetry.ParseRFC3339(text); ok {
			return t.UnixMilli()
		}
		return -1
	}
	if millis, ok := telemetry.ParseEpoch(string(raw)); ok && millis >= 0 && millis < telemetry.MaxMillis {
		return millis
	}
	return -1
}

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
