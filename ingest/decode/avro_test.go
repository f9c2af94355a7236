package decode_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/hamba/avro/v2"
	"github.com/stretchr/testify/require"
)

// schemas is a registry that is in memory.
type schemas map[uint32]decode.Schema

func (s schemas) Schema(id uint32) (decode.Schema, bool) {
	x, ok := s[id]
	return x, ok
}

// registered is a payload with the header that names its schema.
func registered(id uint32, payload []byte) decode.Record {
	return decode.Record{Value: append(binary.BigEndian.AppendUint32([]byte{0}, id), payload...), Timestamp: 77}
}

// encode writes a value as the library for Avro does.
func encode(t testing.TB, schema string, value any) []byte {
	t.Helper()
	s, err := avro.ParseWithCache(schema, "", &avro.SchemaCache{})
	require.NoError(t, err)
	b, err := avro.Marshal(s, value)
	require.NoError(t, err)
	return b
}

// flatSchema has what Avro has.
const flatSchema = `{"type":"record","name":"Reading","namespace":"acme","fields":[
	{"name":"deviceId","type":"string"},
	{"name":"timestamp","type":{"type":"long","logicalType":"timestamp-micros"}},
	{"name":"speed","type":"double"},
	{"name":"small","type":"float"},
	{"name":"starts","type":"long"},
	{"name":"gear","type":{"type":"enum","name":"Gear","symbols":["P","D"]}},
	{"name":"open","type":["null","boolean"]},
	{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
	{"name":"raw","type":"bytes"},
	{"name":"gps","type":{"type":"record","name":"GPS","fields":[{"name":"lat","type":"double"},{"name":"sats","type":"int"}]}},
	{"name":"more","type":{"type":"map","values":"int"}},
	{"name":"list","type":{"type":"array","items":"GPS"}},
	{"name":"axle","type":"int"}
]}`

func flatValue() map[string]any {
	return map[string]any{
		"deviceId": "m1", "timestamp": time.UnixMicro(1763640000123456).UTC(), "speed": 62.5, "small": float32(0.25),
		"starts": int64(1) << 60,
		"gear":   "D", "open": map[string]any{"boolean": true}, "price": big.NewRat(-1999, 100), "raw": []byte{1, 2},
		"gps": map[string]any{"lat": 1.5, "sats": 7}, "more": map[string]any{"k": 3},
		"list": []any{map[string]any{"lat": 1.0, "sats": 1}}, "axle": 2,
	}
}

func TestAvroRecord(t *testing.T) {
	opts := decode.Options{Tenant: "acme", Object: decode.ObjectNames{Labels: []string{"axle"}},
		Schemas: schemas{7: {Type: "AVRO", Text: flatSchema}}}
	got := decode.New(opts).Decode(registered(7, encode(t, flatSchema, flatValue())))
	require.Empty(t, got.Bad)
	require.Equal(t, []telemetry.Reading{{
		Tenant: "acme", Device: "m1", Time: 1763640000123,
		Fields: []telemetry.Field{
			{Metric: "gear", Value: telemetry.TextValue("D")},
			{Metric: "gps_lat", Value: telemetry.FloatValue(1.5)},
			{Metric: "gps_sats", Value: telemetry.IntValue(7)},
			{Metric: "more_k", Value: telemetry.IntValue(3)},
			{Metric: "open", Value: telemetry.BoolValue(true)},
			{Metric: "price", Value: telemetry.FloatValue(-19.99)},
			{Metric: "small", Value: telemetry.FloatValue(0.25)},
			{Metric: "speed", Value: telemetry.FloatValue(62.5)},
			{Metric: "starts", Value: telemetry.IntValue(1 << 60)},
		},
		Labels: telemetry.Labels{{Name: "axle", Value: "2"}},
	}}, got.Readings)
}

const messageSchema = `{"type":"array","items":["null",{"type":"record","name":"Message","fields":[
	{"name":"tenant","type":"string"},{"name":"device","type":["null","string"]},{"name":"ts","type":"long"},
	{"name":"values","type":{"type":"map","values":["null","double","long","boolean","string"]}},
	{"name":"labels","type":["null",{"type":"map","values":"string"}]},
	{"name":"tags","type":{"type":"map","values":"string"}},
	{"name":"ignored","type":{"type":"map","values":"bytes"}}
]}]}`

// A record with the shape of a message is one; an element that is wrong costs only itself.
func TestAvroMessages(t *testing.T) {
	message := func(device any) map[string]any {
		return map[string]any{"Message": map[string]any{
			"tenant": "acme", "device": device, "ts": int64(5), "labels": map[string]any{"map": map[string]any{"l": "1"}},
			"values": map[string]any{"ts": map[string]any{"double": 1.5}, "device": map[string]any{"string": "x"}, "n": nil},
			"tags":   map[string]any{"t": "2"}, "ignored": map[string]any{"b": []byte{1}},
		}}
	}
	opts := decode.Options{Schemas: schemas{7: {Text: messageSchema}}}
	payload := encode(t, messageSchema, []any{message(map[string]any{"string": "m1"}), message(nil), nil,
		message(map[string]any{"string": "m2"})})
	got := decode.New(opts).Decode(registered(7, payload))
	require.Equal(t, []int{0, 3}, got.Index)
	require.Equal(t, []decode.Bad{
		{Index: 1, Reason: decode.Device, Detail: "the message has no device"},
		{Index: 2, Reason: decode.Undecodable, Detail: "a message is a record or an array of records"},
	}, got.Bad)
	require.Equal(t, telemetry.Reading{
		Tenant: "acme", Device: "m1", Time: 5000,
		Fields: []telemetry.Field{{Metric: "device", Value: telemetry.TextValue("x")},
			{Metric: "ts", Value: telemetry.FloatValue(1.5)}},
		Labels: telemetry.Labels{{Name: "l", Value: "1"}}, Tags: telemetry.Labels{{Name: "t", Value: "2"}},
	}, got.Readings[0])
}

// Random records of random schemas, written by the library, give the values that they were made of.
func TestAvroAgainstTheLibrary(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 6))
		want := values{}
		value := map[string]any{"device": "m1", "ts": int64(seed)}
		fields := []any{map[string]any{"name": "device", "type": "string"}, map[string]any{"name": "ts", "type": "long"}}
		for i := range r.IntN(12) {
			name := fmt.Sprintf("f%d", i)
			kind, v, is := randomAvro(r)
			if r.IntN(3) == 0 {
				key := kind
				kind = []any{"null", kind}
				v = map[string]any{key.(string): v}
				if r.IntN(4) == 0 {
					v, is = nil, telemetry.Value{}
				}
			}
			fields = append(fields, map[string]any{"name": name, "type": kind})
			value[name] = v
			if is.Kind() != 0 {
				want.put("acme", "m1", int64(seed)*1000, nil, name, is)
			}
		}
		schema, err := json.Marshal(map[string]any{"type": "record", "name": "R", "fields": fields})
		require.NoError(t, err)
		got := decode.New(decode.Options{Tenant: "acme", Schemas: schemas{1: {Text: string(schema)}}}).
			Decode(registered(1, encode(t, string(schema), value)))
		if len(want) == 0 {
			require.Equal(t, decode.Empty, got.Bad[0].Reason)
			continue
		}
		require.Empty(t, got.Bad, "seed %d", seed)
		require.Equal(t, want, flat(t, got), "seed %d", seed)
	}
}

func randomAvro(r *rand.Rand) (kind, value any, is telemetry.Value) {
	switch r.IntN(6) {
	case 0:
		f := randomFloat(r)
		return "double", f, telemetry.FloatValue(f)
	case 1:
		f := float32(r.NormFloat64())
		return "float", f, telemetry.FloatValue(float64(f))
	case 2:
		i := int64(r.Uint64()) >> r.IntN(64)
		return "long", i, telemetry.IntValue(i)
	case 3:
		i := int32(r.Uint32())
		return "int", i, telemetry.IntValue(int64(i))
	case 4:
		return "boolean", true, telemetry.BoolValue(true)
	}
	s := strings.Repeat("é", r.IntN(300))
	return "string", s, telemetry.TextValue(s)
}

// A schema that is not known yet makes nothing but a question; one that there is not makes a dead letter.
func TestSchemas(t *testing.T) {
	known := schemas{}
	d := decode.New(decode.Options{Tenant: "acme", Schemas: known})
	r := registered(7, encode(t, flatSchema, flatValue()))
	got := d.Decode(r)
	require.Equal(t, &decode.UnknownSchema{ID: 7}, got.Unknown)
	require.EqualError(t, got.Unknown, "schema 7 is not known yet")
	require.Empty(t, got.Readings)
	require.Empty(t, got.Bad)

	known[7] = decode.Schema{Fault: "the registry has none"}
	got = d.Decode(r)
	require.Nil(t, got.Unknown)
	require.Equal(t, []decode.Bad{{Index: decode.Whole, Reason: decode.BadSchema,
		Detail: "schema 7: the registry has none"}}, got.Bad)
	known[7] = decode.Schema{Type: "AVRO", Text: flatSchema}
	require.Len(t, d.Decode(r).Readings, 1, "that there was none is not remembered")
	delete(known, 7)
	require.Len(t, d.Decode(r).Readings, 1, "a schema never changes: it is asked for once")

	for id, s := range map[uint32]decode.Schema{
		1: {Type: "PROTOBUF", Text: "x"}, 2: {Type: "AVRO", Text: "{"}, 3: {Type: "AVRO", Text: `"string"`},
		4: {Type: "AVRO", Text: `{"type":"record","name":"R","fields":[{"name":"a","type":"Missing"}]}`},
	} {
		known[id] = s
		got := d.Decode(registered(id, []byte{0}))
		require.Equal(t, decode.BadSchema, got.Bad[0].Reason, "%v", got.Bad)
	}
	require.Equal(t, decode.BadSchema, decode.New(decode.Options{}).Decode(r).Bad[0].Reason, "no registry")
	r.Value, r.ContentType = []byte("no"), "application/vnd.confluent.avro"
	require.Equal(t, decode.Undecodable, d.Decode(r).Bad[0].Reason)
}

func TestSchemasThatReferToOthers(t *testing.T) {
	const gps = `{"type":"record","name":"GPS","namespace":"geo","fields":[{"name":"lat","type":"double"}]}`
	const whole = `{"type":"record","name":"R","fields":[{"name":"device","type":"string"},{"name":"ts","type":"long"},{"name":"gps","type":"geo.GPS"}]}`
	d := decode.New(decode.Options{Tenant: "acme", Schemas: schemas{1: {Text: whole, References: []string{gps}}}})
	written := strings.Replace(whole, `"geo.GPS"`, gps, 1)
	got := d.Decode(registered(1, encode(t, written, map[string]any{"device": "m1", "ts": int64(5),
		"gps": map[string]any{"lat": 1.5}})))
	require.Empty(t, got.Bad)
	require.Equal(t, []telemetry.Field{{Metric: "gps_lat", Value: telemetry.FloatValue(1.5)}}, got.Readings[0].Fields)
}

// An id beyond int32 reaches no registry: it is refused at once, not asked for.
func TestSchemaIDBeyondInt32(t *testing.T) {
	d := decode.New(decode.Options{Tenant: "acme", Schemas: schemas{}})
	for _, id := range []uint32{1 << 31, math.MaxUint32} {
		got := d.Decode(registered(id, []byte("x")))
		require.Nil(t, got.Unknown)
		require.Equal(t, decode.BadSchema, got.Bad[0].Reason)
	}
	require.NotNil(t, d.Decode(registered(math.MaxInt32, []byte("x"))).Unknown)
}

func TestJSONSchema(t *testing.T) {
	d := decode.New(decode.Options{Tenant: "acme", Schemas: schemas{9: {Type: "JSON", Text: `{"type":"object"}`}}})
	got := d.Decode(registered(9, []byte(`{"device":"m1","ts":5,"speed":62.5}`)))
	require.Empty(t, got.Bad)
	require.Equal(t, []telemetry.Field{{Metric: "speed", Value: telemetry.FloatValue(62.5)}}, got.Readings[0].Fields)
	require.Equal(t, decode.Undecodable, d.Decode(registered(9, []byte(`{`))).Bad[0].Reason)
}

// A schema may refer to itself, and claim what takes no bytes to be there any number of times.
func TestHostileAvro(t *testing.T) {
	known := schemas{
		1: {Text: `{"type":"record","name":"R","fields":[{"name":"next","type":["null","R"]},{"name":"list","type":{"type":"array","items":"null"}}]}`},
		2: {Text: `{"type":"record","name":"R","fields":[{"name":"list","type":{"type":"array","items":{"type":"array","items":"null"}}}]}`},
		3: {Text: `{"type":"record","name":"R","fields":[{"name":"self","type":"R"}]}`},
	}
	d := decode.New(decode.Options{Tenant: "acme", Device: "m1", Schemas: known})
	many := binary.AppendVarint(nil, 1<<40)
	lists := binary.AppendVarint(nil, 1000)
	for range 1000 {
		lists = append(binary.AppendVarint(lists, 1<<16), 0)
	}
	for i, r := range []decode.Record{
		registered(1, []byte(strings.Repeat("\x02", 1000))), registered(1, append([]byte{0}, many...)),
		registered(2, many), registered(2, lists), registered(2, binary.AppendVarint(nil, -1<<63)), registered(3, nil),
		registered(1, []byte{4}),
	} {
		got := d.Decode(r)
		require.Empty(t, got.Readings, i)
		require.Equal(t, decode.Undecodable, got.Bad[0].Reason, "%d: %v", i, got.Bad)
	}
}
