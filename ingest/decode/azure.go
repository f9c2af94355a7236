package decode

import (
	"encoding/base64"
	"encoding/binary"
	"strings"

	"binnacle/internal/telemetry"
)

// The system properties of IoT Hub that count here, as headers of a Kafka record and in the JSON of a message that it
// has routed.
const (
	hubPrefix = "iothub-"
	hubDevice = "iothub-connection-device-id"
	hubModule = "iothub-connection-module-id"
	hubSource = "iothub-message-source"
)

// hubTimes are the properties that may hold the event time of a message without one, the best first.
var hubTimes = []string{"iothub-creation-time-utc", "iothub-enqueuedtime"}

// enveloped reports whether the headers belong to a message that a device has sent to IoT Hub.
func enveloped(headers []Header) bool {
	for i := range headers {
		if k := headers[i].Key; len(k) > len(hubPrefix) && k[:len(hubPrefix)] == hubPrefix {
			return true
		}
	}
	return false
}

// hubHeaders reads from the headers which device has sent the message, and when.
func (d *Decoder) hubHeaders(r *Record) *fault {
	if r.ContentType == "" {
		r.ContentType = header(r.Headers, "iothub-content-type")
	}
	property := func(name string) string {
		raw := rawHeader(r.Headers, name)
		if len(raw) < 9 {
			return amqpText(raw)
		}
		// Names come again with each message: they are made once, by their bytes.
		if text, known := d.headers.get(raw); known {
			return text
		}
		text := amqpText(raw)
		d.headers.put(string(raw), text)
		return text
	}
	return d.envelope(property, property, func(name string) (int64, bool) {
		raw := rawHeader(r.Headers, name)
		if len(raw) == 9 && raw[0] == 0x83 {
			return telemetry.EpochMillis(int64(binary.BigEndian.Uint64(raw[1:]))), true
		}
		return propertyMillis(amqpText(raw))
	})
}

// envelope sets the origin from properties: the system's, which a device can't write, and the device's.
func (d *Decoder) envelope(property, own func(name string) string, at func(name string) (int64, bool)) *fault {
	if source := property(hubSource); source != "" && !strings.EqualFold(source, "telemetry") {
		return faultf(ContentType, "the message is no telemetry but %.80q", source)
	}
	o := &d.origin
	o.enveloped = true
	if device := property(hubDevice); device != "" {
		known, err := d.devices.get([]byte(device))
		if err != nil {
			return faultf(Device, "%v", err)
		}
		o.device, o.bound = known, !d.opts.Gateways && d.opts.Set.Device == ""
	}
	for _, name := range d.opts.Object.Tenant {
		if tenant := own(name); tenant != "" {
			if err := d.checkTenant(tenant); err != nil {
				return faultf(Tenant, "%v", err)
			}
			if f := d.checkBound(tenant, "the message"); f != nil {
				return f
			}
			o.tenant = tenant
			break
		}
	}
	o.module = property(hubModule)
	o.timed = true
	for _, name := range hubTimes {
		if millis, ok := at(name); ok {
			o.now = millis
			break
		}
	}
	return nil
}

// propertyMillis reads the time of a property: RFC 3339, or a number since 1970.
func propertyMillis(text string) (int64, bool) {
	if t, ok := telemetry.ParseRFC3339(text); ok {
		return t.UnixMilli(), true
	}
	return telemetry.ParseEpoch(text)
}

// labelModule adds the module that has sent them to all readings as a label.
func (d *Decoder) labelModule() {
	readings, index := d.out.Readings, d.out.Index
	d.out.Readings, d.out.Index = readings[:0], index[:0]
	for i, r := range readings {
		if d.made.add(pairBytes + len("module") + len(d.origin.module)); d.made.over {
			return
		}
		d.pairs = append(append(d.pairs[:0], telemetry.Label{Name: "module", Value: d.origin.module}), r.Labels...)
		var f *fault
		if r.Labels, f = d.labelSets.labels(d.pairs, &d.key); f != nil {
			d.addBad(index[i], faultf(Label, "the message has a label module, and another module has sent it"))
			continue
		}
		d.out.Readings, d.out.Index = append(d.out.Readings, r), append(d.out.Index, index[i])
	}
}

// beginsEnvelope reports whether the JSON of a message that IoT Hub has routed may begin with a property.
func beginsEnvelope(first []byte) bool {
	switch string(first) {
	case "EnqueuedTimeUtc", "Properties", "SystemProperties", "systemProperties", "Body":
		return true
	}
	return false
}

// jsonEnvelope reads the JSON of a message that IoT Hub has routed: the body is in it, as JSON or in base64.
func (d *jsonReader) jsonEnvelope() error {
	system, own := map[string]string{}, map[string]string{}
	var body []byte
	had := map[string]bool{}
	err := d.scan.Object(func(name []byte) error {
		part := strings.ToLower(string(name))
		if had[part] {
			return d.scan.Fail("a property that occurs twice")
		}
		had[part] = true
		switch part {
		case "systemproperties":
			return d.scan.Object(func(name []byte) error { return d.jsonProperty(name, system) })
		case "properties":
			return d.scan.Object(func(name []byte) error { return d.jsonProperty(name, own) })
		case "body":
			d.scan.Next()
			from := d.scan.At()
			err := d.scan.Skip()
			body = d.source[from:d.scan.At()]
			return err
		case "enqueuedtimeutc":
			return d.jsonProperty([]byte("enqueuedTime"), system)
		}
		return d.scan.Skip()
	})
	if err != nil {
		return err
	}
	if !d.scan.End() {
		return d.scan.Fail("more after the end")
	}
	property := func(name string) string {
		if text, ok := system[name]; ok {
			return text
		}
		return system[hubSpelling[name]]
	}
	f := d.envelope(property, func(name string) string { return own[name] }, func(name string) (int64, bool) {
		return propertyMillis(property(name))
	})
	if f == nil {
		f = d.jsonBody(body, property("iothub-content-type"))
	}
	if f != nil {
		d.addBad(Whole, f)
	}
	return nil
}

// hubSpelling is what properties are called where IoT Hub writes to storage.
var hubSpelling = map[string]string{
	hubDevice: "connectionDeviceId", hubModule: "connectionModuleId", hubSource: "messageSource",
	"iothub-enqueuedtime": "enqueuedTime", "iothub-creation-time-utc": "creationTimeUtc",
	"iothub-content-type": "contentType",
}

func (d *jsonReader) jsonProperty(name []byte, to map[string]string) error {
	if d.scan.Next() != '"' {
		return d.scan.Skip()
	}
	key := string(name) // the scanner reuses this memory
	text, err := d.scan.Str()
	if err != nil {
		return err
	}
	if _, twice := to[key]; twice {
		return d.scan.Fail("a property that occurs twice")
	}
	to[key] = string(text)
	return d.made.part(2*pairBytes + len(key) + len(text))
}

func (d *jsonReader) jsonBody(body []byte, contentType string) *fault {
	r := Record{Value: body, ContentType: contentType}
	if len(body) > 0 && body[0] == '"' {
		d.scan.Reset(body)
		text, err := d.scan.Str()
		if err != nil {
			return faultf(Undecodable, "not JSON: %v", err)
		}
		d.made.work(len(text))
		if r.Value, err = base64.StdEncoding.AppendDecode(nil, text); err != nil {
			return faultf(Undecodable, "the body is neither JSON nor base64")
		}
	}
	if d.origin.nested {
		return faultf(Undecodable, "an envelope in an envelope")
	}
	d.origin.nested = true
	d.Decoder.read(r)
	return nil
}
