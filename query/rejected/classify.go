package rejected

import (
	"encoding/json"
	"slices"
	"strings"

	"binnacle/ingest/decode"
	"binnacle/internal/deadletter"
	"binnacle/internal/telemetry"
	"binnacle/internal/topics"
)

// classifier finds the tenant and the device of dead letters. It belongs to one goroutine.
type classifier struct {
	topic   topics.Topic
	opts    decode.Options
	decoder *decode.Decoder
}

// newClassifier makes one for the dead letters of a topic. Those of a tenant's topic are the tenant's, whatever they
// name.
func newClassifier(opts decode.Options, topic topics.Topic) *classifier {
	opts = opts.ForTopic(topic.Name)
	opts.Set, opts.Schemas = decode.Names{Tenant: topic.Tenant}, nil
	return &classifier{topic, opts, decode.New(opts)}
}

// entry returns what is kept of a dead letter. The payload of one with a known tenant holds nothing of other tenants.
func (c *classifier) entry(l *deadletter.DeadLetter) entry {
	e := entry{id: identity{c.topic.Name, l.ID()}, time: -1, reason: decode.Reason(strings.Clone(string(l.Reason))),
		detail: l.Detail}
	piece := l.Value
	if l.Truncated < 0 && l.Through < 0 {
		kind := contentType(l)
		got := c.decoder.Decode(decode.Record{Value: l.Value, Headers: l.Headers, ContentType: kind,
			Timestamp: max(l.Published, 0)})
		if readings := refused(got, l.Index); len(readings) > 0 {
			if l.Index == decode.Whole && len(got.Bad) > 0 {
				readings = append(readings, telemetry.Reading{}) // the tenant of what is wrong is not known
			}
			if own := readings[0]; slices.IndexFunc(readings, func(r telemetry.Reading) bool {
				return r.Tenant != own.Tenant
			}) < 0 {
				e.tenant, e.device, e.time, piece = own.Tenant, own.Device, own.Time, message(readings)
			}
		} else if own, part, ok := c.classifyObject(l, kind); ok {
			e.tenant, e.device, e.time, piece = own.Tenant, own.Device, own.Time, part
		} else {
			e.time = own.Time
		}
	}
	if e.tenant == "" {
		e.tenant = c.topic.Tenant
	}
	if (e.tenant == "" || c.topic.Tenant != "" && e.device == "") && len(l.Key) <= maxKey {
		e.key = string(l.Key)
	}
	e.truncated = l.Truncated >= 0 || len(piece) > maxPayload
	e.payload = string(piece[:min(len(piece), maxPayload)])
	return e
}

// maxKey is the length of the longest tenant/device.
const maxKey = 63 + 1 + 4*200

func contentType(l *deadletter.DeadLetter) string {
	for _, h := range l.Headers {
		if h.Key == "content-type" {
			return string(h.Value)
		}
	}
	return ""
}

// refused returns the readings that a dead letter is about, of those in its payload.
func refused(got decode.Result, index int) (out []telemetry.Reading) {
	for i, r := range got.Readings {
		if index == decode.Whole || got.Index[i] == index {
			out = append(out, r)
		}
	}
	return out
}

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

// classifyObject looks for the tenant in an element that is no reading, where that is a JSON object: in the properties
// that would have named it. An element that names two is of no tenant, but may have an event time; -1 if it has none.
func (c *classifier) classifyObject(l *deadletter.DeadLetter, kind string) (
	r telemetry.Reading, piece []byte, ok bool) {
	r.Time = -1
	if l.Index < 0 || !c.isPlainJSON(l, kind) {
		return r, nil, false
	}
	piece = l.Value
	var all []json.RawMessage
	if json.Unmarshal(l.Value, &all) == nil {
		if l.Index >= len(all) {
			return r, nil, false
		}
		piece = all[l.Index]
	} else if l.Index > 0 {
		return r, nil, false
	}
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
	names := func(own []string, otherwise ...string) []string {
		if own == nil {
			own = otherwise
		}
		return append([]string{otherwise[0]}, own...)
	}
	r.Time = instant(properties["ts"])
	tenants := names(c.opts.Object.Tenant, "tenant", "tenantId", "tenant_id")
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
	if r.Device, ok = text(names(c.opts.Object.Device, "device", "deviceId", "device_id")); !ok ||
		telemetry.CheckDevice(r.Device) != nil {
		r.Device = ""
	}
	return r, piece, true
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
		if hasProperty(value, name, names) {
			return true
		}
	}
	return false
}

// hasProperty reports whether a value has a property of one of some names. Flat objects join all names that lead to it
// with _.
func hasProperty(value any, path string, names []string) bool {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			at := path + "_" + name
			if slices.Contains(names, name) || slices.Contains(names, at) || hasProperty(inner, at, names) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return hasProperty(inner, path, names) })
	}
	return false
}

// isPlainJSON reports whether the payload may be JSON messages, and nothing around it names a tenant.
func (c *classifier) isPlainJSON(l *deadletter.DeadLetter, kind string) bool {
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
