package decode

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"

	"binnacle/internal/telemetry"

	"google.golang.org/protobuf/encoding/protowire"
)

// resource is what sends metrics, as OTLP describes it.
type resource struct {
	id             uint64
	tenant, device string
	tags           telemetry.Labels
	// labels are every data point's; deltaLabels also have the mark of a metric that is counted from zero each time.
	labels, deltaLabels telemetry.Labels
	fault               *fault // it has no tenant or device
	deltaFault          *fault // it has no deltaLabels
}

// resources caches resources, and the attributes of their data points, by their bytes.
type resources struct {
	known  cache[*resource]
	points cache[telemetry.Labels]
	last   uint64
}

func newResources() resources {
	return resources{
		known:  newCache[*resource](deviceBytes, setWeight),
		points: newCache[telemetry.Labels](deviceBytes, setWeight),
	}
}

func (r *resources) keep(raw string, res *resource) {
	if len(raw) <= maxResource {
		r.known.put(raw, res)
	}
}

// maxResource bounds the bytes of a resource that is remembered.
const maxResource = 1 << 12

func (r *resources) keepPoint(key string, labels telemetry.Labels) {
	if len(key) <= 2*maxInternedBytes {
		r.points.put(key, labels)
	}
}

// resourceOf reads a Resource, or finds it by its bytes. What tenant and device are depends on the options and the
// origin.
func (d *otlpReader) resourceOf(raw []byte) (*resource, error) {
	if !d.origin.enveloped {
		if known, ok := d.resources.known.get(raw); ok {
			return known, nil
		}
	}
	d.pairs = d.pairs[:0]
	err := each(raw, 1, func(b []byte) error {
		pair, err := d.attribute(b, &d.tagNames)
		if err == nil {
			d.pairs = append(d.pairs, pair)
			err = d.made.part(2 * pairBytes)
		}
		return err
	})
	var f *fault
	if err != nil && !errors.As(err, &f) {
		return nil, err
	}
	res := d.describe(f)
	if !d.origin.enveloped {
		d.resources.keep(string(raw), res)
	}
	return res, nil
}

// describe makes a resource of the attributes in d.pairs.
func (d *otlpReader) describe(f *fault) *resource {
	d.resources.last++
	res := &resource{id: d.resources.last, fault: f}
	if f != nil {
		return res
	}
	if name := d.repeated(d.pairs); name != "" {
		res.fault = faultf(Label, "the attribute %q occurs twice in a resource", name)
		return res
	}
	names := d.opts.Resource
	s, f := d.senderAmong(d.pairs, naming{"the resource", "attributes", names.Tenant, names.Device})
	if res.fault = f; f != nil {
		return res
	}
	res.tenant, res.device = s.tenant, s.device
	var labels, tags []telemetry.Label
	for i, p := range d.pairs {
		switch {
		case s.isNamedBy(i):
		case slices.Contains(names.Labels, p.Name):
			labels = append(labels, p)
		default:
			tags = append(tags, p)
		}
	}
	res.labels, _ = d.labelSets.labels(append([]telemetry.Label(nil), labels...), &d.key)
	res.tags, _ = d.labelSets.get(tags, &d.key)
	labels = append(labels, telemetry.Label{Name: "temporality", Value: "delta"})
	res.deltaLabels, res.deltaFault = d.labelSets.labels(labels, &d.key)
	return res
}

// naming is how something that sends names its tenant and device, for errors.
type naming struct {
	what, named      string // such as the resource, and its attributes
	tenants, devices []string
}

// sender is the tenant and device that labels name, and which labels those are.
type sender struct {
	tenant, device     string
	tenantAt, deviceAt int // -1: none, it is the origin's
}

// isNamedBy reports whether the label at a place names the tenant or the device.
func (s *sender) isNamedBy(place int) bool { return place == s.tenantAt || place == s.deviceAt }

// senderAmong finds the tenant and device among labels, and completes them by the origin.
func (d *Decoder) senderAmong(pairs []telemetry.Label, n naming) (sender, *fault) {
	s := sender{tenantAt: pick(pairs, n.tenants), deviceAt: pick(pairs, n.devices)}
	var r telemetry.Reading
	if s.tenantAt >= 0 {
		r.Tenant = pairs[s.tenantAt].Value
	}
	if s.deviceAt >= 0 {
		r.Device = pairs[s.deviceAt].Value
	}
	if r.Tenant != "" {
		if err := d.checkTenant(r.Tenant); err != nil {
			return s, faultf(Tenant, "%v", err)
		}
	}
	if r.Device != "" {
		if err := d.checkDevice(r.Device); err != nil {
			return s, faultf(Device, "%v", err)
		}
	}
	f := d.resolveOrigin(&r, n.what)
	switch {
	case f == nil:
	case f.reason == Tenant:
		f = faultf(Tenant, "%s has none of the %s %q, and there is no default tenant", n.what, n.named, n.tenants)
	case f.reason == Device && r.Device == "":
		f = faultf(Device, "%s has none of the %s %q, and there is no default device", n.what, n.named, n.devices)
	}
	s.tenant, s.device = r.Tenant, r.Device
	return s, f
}

// attribute reads a KeyValue. Its error is a *fault where the message is right but the attribute isn't.
func (d *otlpReader) attribute(message []byte, names *interner) (telemetry.Label, error) {
	key, value, err := twoFields(message, 1, 2)
	if err != nil {
		return telemetry.Label{}, err
	}
	name, err := names.get(key)
	if err != nil {
		return telemetry.Label{}, faultf(Name, "%v", err)
	}
	text, err := d.attributeText(value)
	return telemetry.Label{Name: name, Value: text}, err
}

// attributeText returns an AnyValue as text: what is no text as JSON, bytes in base64.
func (d *otlpReader) attributeText(message []byte) (string, error) {
	v, err := d.anyValue(message, 0)
	if err != nil {
		return "", err
	}
	return d.anyText(v)
}

func (d *otlpReader) anyText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case []byte: // a string
		text, err := d.checked.get(v)
		if err != nil {
			return "", faultf(Undecodable, "%v", err)
		}
		return text, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return floatText(v), nil
	case base64Bytes:
		b, _ := json.Marshal([]byte(v))
		return string(b[1 : len(b)-1]), nil
	}
	b, err := json.Marshal(withoutBytes(v))
	if err != nil {
		return "", faultf(Undecodable, "attribute: %v", err)
	}
	return string(b), nil
}

// floatText returns a number as JSON writes it.
func floatText(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	b, _ := json.Marshal(f)
	return string(b)
}

// base64Bytes is an AnyValue's bytes_value.
type base64Bytes []byte

// withoutBytes makes of an AnyValue what encoding/json writes as it should.
func withoutBytes(v any) any {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case base64Bytes:
		return []byte(v)
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = withoutBytes(x)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = withoutBytes(x)
		}
		return out
	}
	return v
}

// anyValue reads an AnyValue: nil, []byte for a string, bool, int64, float64, base64Bytes, []any, map[string]any.
func (d *otlpReader) anyValue(message []byte, depth int) (v any, err error) {
	if err := d.made.part(anyBytes); err != nil {
		return nil, err
	}
	var f protobufField
	w := protobufReader{rest: message}
	for w.next(&f) {
		switch {
		case depth == maxDepth && (f.number == 5 || f.number == 6):
			return nil, faultf(Undecodable, "an attribute is nested too deep")
		case f.is(1, protowire.BytesType):
			v = f.bytes
		case f.is(2, protowire.VarintType):
			v = f.bits != 0
		case f.is(3, protowire.VarintType):
			v = int64(f.bits)
		case f.is(4, protowire.Fixed64Type):
			v = math.Float64frombits(f.bits)
		case f.is(5, protowire.BytesType):
			list := []any{}
			err = each(f.bytes, 1, func(b []byte) error {
				x, err := d.anyValue(b, depth+1)
				list = append(list, x)
				return err
			})
			v = list
		case f.is(6, protowire.BytesType):
			v, err = d.keyValues(f.bytes, depth)
		case f.is(7, protowire.BytesType):
			v = base64Bytes(f.bytes)
		}
		if err != nil {
			return nil, err
		}
	}
	return v, w.err
}

// anyBytes is about the memory of an AnyValue within another one, and of what is made of it.
const anyBytes = 64

func (d *otlpReader) keyValues(message []byte, depth int) (any, error) {
	out := map[string]any{}
	err := each(message, 1, func(b []byte) error {
		key, value, err := twoFields(b, 1, 2)
		if err != nil {
			return err
		}
		x, err := d.anyValue(value, depth+1)
		if _, twice := out[string(key)]; twice && err == nil {
			err = faultf(Label, "the key %.80q occurs twice in an attribute", key)
		}
		out[string(key)] = x
		return err
	})
	return out, err
}
