package decode_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

// whole reports whether a record was refused as a whole because it is not of its format.
func whole(got decode.Result) bool {
	return len(got.Bad) == 1 && got.Bad[0].Index == decode.Whole && got.Bad[0].Reason == decode.Undecodable
}

// Nothing that is no reading comes of anything.
func FuzzOTLP(f *testing.F) {
	for seed := range uint64(20) {
		m, _ := randomMetrics(rand.New(rand.NewPCG(seed, 8)))
		f.Add(m.protobuf())
	}
	f.Add([]byte("\n\x02\n\x00\n\x00"))
	d := decode.New(decode.Options{Tenant: "acme", Device: "m1", Format: decode.OTLP, Buckets: true})
	f.Fuzz(func(t *testing.T, payload []byte) {
		got := d.Decode(decode.Record{Value: payload})
		sound(t, got)
	})
}

func FuzzOTLPInJSON(f *testing.F) {
	for seed := range uint64(20) {
		m, _ := randomMetrics(rand.New(rand.NewPCG(seed, 8)))
		f.Add(m.json())
	}
	f.Add([]byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"sum":{"dataPoints":[{"asInt":"1"}]},"name":"a"}]}],"resource":{}}]}`))
	d := decode.New(decode.Options{Tenant: "acme", Device: "m1", Buckets: true})
	f.Fuzz(func(t *testing.T, payload []byte) {
		got := d.Decode(decode.Record{Value: payload, ContentType: "application/json"})
		sound(t, got)
		if !whole(got) && len(got.Readings) > 0 {
			require.True(t, json.Valid(payload))
		}
	})
}

// What Prometheus writes in version 1.0 is never refused as a whole, whatever it has read, and nothing that is no
// reading comes of either version.
func FuzzRemoteWrite(f *testing.F) {
	series := []sent{
		{labels: label("__name__", "up", "instance", "m1", "job", "node"),
			samples: []prompb.Sample{{Value: 1, Timestamp: 5000}}, unit: "s"},
		{labels: label("__name__", "h", "instance",
			"m2"), histograms: []prompb.Histogram{{Count: &prompb.Histogram_CountInt{CountInt: 7}, Timestamp: 5}}},
	}
	for _, r := range []decode.Record{version1(f, series), version2(f, series)} {
		body, err := snappy.Decode(nil, r.Value)
		require.NoError(f, err)
		f.Add(body, r.ContentType == write2)
	}
	f.Add([]byte("Cd"), false) // a group that another ends
	d := decode.New(decode.Options{Tenant: "acme"})
	f.Fuzz(func(t *testing.T, body []byte, second bool) {
		r := decode.Record{Value: snappy.Encode(nil, body), ContentType: write1}
		if second {
			r.ContentType = write2
		}
		sound(t, d.Decode(r))
		var req prompb.WriteRequest
		if second || req.Unmarshal(body) != nil {
			return
		}
		got := d.Decode(version1(t, known(req)))
		require.False(t, whole(got), "%v", got.Bad)
	})
}

// known is of a request what its type has names for: the rest of what was read is kept, and would be written as it was.
func known(req prompb.WriteRequest) (all []sent) {
	for _, ts := range req.Timeseries {
		var s sent
		for _, l := range ts.Labels {
			s.labels = append(s.labels, prompb.Label{Name: l.Name, Value: l.Value})
		}
		for _, p := range ts.Samples {
			s.samples = append(s.samples, prompb.Sample{Value: p.Value, Timestamp: p.Timestamp})
		}
		all = append(all, s)
	}
	return all
}

// A payload of any schema is read or refused, in bounded time.
func FuzzAvro(f *testing.F) {
	registry := schemas{
		0: {Text: flatSchema}, 1: {Text: messageSchema}, 2: {Type: "JSON"},
		3: {Text: `{"type":"record","name":"R","fields":[{"name":"next","type":["null","R"]},{"name":"list","type":{"type":"array","items":"null"}}]}`},
	}
	f.Add(uint8(0), encode(f, flatSchema, flatValue()))
	f.Add(uint8(1), []byte("\x02\x00\x00"))
	f.Add(uint8(2), []byte(`{"device":"m1","ts":5,"a":1}`))
	f.Add(uint8(3), []byte("\x02\x02\x00\x00\x00"))
	d := decode.New(decode.Options{Tenant: "acme", Device: "m1", Schemas: registry})
	f.Fuzz(func(t *testing.T, id uint8, payload []byte) {
		sound(t, d.Decode(registered(uint32(id%4), payload)))
	})
}

func FuzzSenML(f *testing.F) {
	const text = `[{"bn":"m1:","bt":1763640000,"bu":"V","bv":1,"n":"a","v":1.5},{"n":"b","vs":"x","t":-1},{"n":"c","vb":true,"s":5}]`
	f.Add([]byte(text), false)
	f.Add(cborOf(f, text), true)
	d := decode.New(decode.Options{Tenant: "acme", Device: "m1"})
	f.Fuzz(func(t *testing.T, payload []byte, binary bool) {
		r := decode.Record{Value: payload, ContentType: senmlType, Timestamp: 5}
		if binary {
			r.ContentType = cborType
		}
		got := d.Decode(r)
		sound(t, got)
		if !binary && !whole(got) && len(payload) > 0 && len(got.Readings) > 0 {
			require.True(t, json.Valid(payload))
		}
	})
}

// Objects of any shape, with and without an envelope around them.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":[1],"d":"x"},"ts":5}`), "m1", []byte{0x83, 0, 0, 0, 0, 0, 0, 0, 1}, "application/json")
	f.Add([]byte(`{"EnqueuedTimeUtc":"2025-11-20T12:00:00Z","SystemProperties":{"connectionDeviceId":"m1"},"Body":{"a":1}}`), "", []byte{}, "")
	f.Add([]byte(`{"Body":"eyJhIjoxfQ=="}`), "\xa1\x02m1", []byte("1"), "\xa1\x10application/json")
	f.Add([]byte("\n\x00"), "m1", []byte("x"), "application/x-protobuf")
	d := decode.New(decode.Options{Tenant: "acme"})
	f.Fuzz(func(t *testing.T, payload []byte, device string, at []byte, contentType string) {
		got := d.Decode(hub(string(payload), "iothub-connection-device-id", device, "iothub-enqueuedtime", string(at),
			"content-type", contentType))
		sound(t, got)
		sound(t, d.Decode(decode.Record{Value: payload, ContentType: contentType}))
		sound(t, d.Decode(decode.Record{Value: payload, ContentType: flatType}))
	})
}

// Whatever a record without a content type holds, it is looked at as one of the formats, whatever came before.
func FuzzSniff(f *testing.F) {
	f.Add([]byte(truck))
	f.Add([]byte(truckLine))
	f.Add([]byte("\n {}"))
	f.Add([]byte{0, 0, 0, 0, 7, 1})
	f.Add(cborOf(f, `[{"n":"a","v":1}]`))
	m, _ := randomMetrics(rand.New(rand.NewPCG(1, 8)))
	f.Add(m.protobuf())
	old := decode.New(decode.Options{Tenant: "acme", Device: "m1"})
	f.Fuzz(func(t *testing.T, payload []byte) {
		got := old.Decode(decode.Record{Value: payload, Timestamp: 5})
		sound(t, got)
		fresh := decode.New(decode.Options{Tenant: "acme", Device: "m1"}).Decode(decode.Record{Value: payload, Timestamp: 5})
		require.True(t, slices.Equal(fresh.Bad, got.Bad))
		require.True(t, slices.EqualFunc(fresh.Readings, got.Readings, func(a, b telemetry.Reading) bool {
			return a.Tenant == b.Tenant && a.Device == b.Device && a.Time == b.Time && slices.Equal(a.Fields, b.Fields) &&
				slices.Equal(a.Labels, b.Labels) && slices.Equal(a.Tags, b.Tags)
		}))
	})
}
