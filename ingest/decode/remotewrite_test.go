package decode_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"
)

const (
	write1 = "application/x-protobuf;proto=prometheus.WriteRequest"
	write2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
)

// sent is a series as a test means it.
type sent struct {
	labels     []prompb.Label
	samples    []prompb.Sample
	histograms []prompb.Histogram
	unit       string
}

func label(pairs ...string) (all []prompb.Label) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, prompb.Label{Name: pairs[i], Value: pairs[i+1]})
	}
	return all
}

// version1 is the series as Prometheus' own encoder writes them.
func version1(t testing.TB, series []sent) decode.Record {
	t.Helper()
	var req prompb.WriteRequest
	for _, s := range series {
		req.Timeseries = append(req.Timeseries, prompb.TimeSeries{
			Labels: s.labels, Samples: s.samples, Histograms: s.histograms, Exemplars: []prompb.Exemplar{{Value: 5}},
		})
		if s.unit != "" {
			req.Metadata = append(req.Metadata, prompb.MetricMetadata{MetricFamilyName: s.labels[0].Value, Unit: s.unit,
				Help: "x"})
		}
	}
	b, err := req.Marshal()
	require.NoError(t, err)
	return decode.Record{Value: snappy.Encode(nil, b), ContentType: write1}
}

// version2 is the same in version 2.0.
func version2(t testing.TB, series []sent) decode.Record {
	t.Helper()
	table := writev2.NewSymbolTable()
	var req writev2.Request
	for _, s := range series {
		var ls labels.ScratchBuilder
		for _, l := range s.labels {
			ls.Add(l.Name, l.Value)
		}
		x := writev2.TimeSeries{LabelsRefs: table.SymbolizeLabels(ls.Labels(), nil),
			Exemplars: []writev2.Exemplar{{Value: 5}}}
		for _, p := range s.samples {
			x.Samples = append(x.Samples, writev2.Sample{Value: p.Value, Timestamp: p.Timestamp, StartTimestamp: 1})
		}
		for _, h := range s.histograms {
			to := writev2.Histogram{Sum: h.Sum, Timestamp: h.Timestamp, Schema: h.Schema}
			switch c := h.Count.(type) {
			case *prompb.Histogram_CountInt:
				to.Count = &writev2.Histogram_CountInt{CountInt: c.CountInt}
			case *prompb.Histogram_CountFloat:
				to.Count = &writev2.Histogram_CountFloat{CountFloat: c.CountFloat}
			}
			x.Histograms = append(x.Histograms, to)
		}
		x.Metadata.UnitRef = table.Symbolize(s.unit)
		req.Timeseries = append(req.Timeseries, x)
	}
	req.Symbols = table.Symbols()
	b, err := req.Marshal()
	require.NoError(t, err)
	return decode.Record{Value: snappy.Encode(nil, b), ContentType: write2}
}

// bothVersions decodes series from either version, and checks that the two say the same.
func bothVersions(t testing.TB, opts decode.Options, series []sent) decode.Result {
	t.Helper()
	one := decode.New(opts).Decode(version1(t, series))
	two := decode.New(opts).Decode(version2(t, series))
	require.Equal(t, one, two)
	return one
}

func TestRemoteWrite(t *testing.T) {
	got := bothVersions(t, decode.Options{Tenant: "acme"}, []sent{
		{labels: label("__name__", "temperature", "instance", "m1:9100", "job", "node"),
			samples: []prompb.Sample{{Value: 73.9, Timestamp: 5000}}, unit: "celsius"},
		{labels: label("__name__", "up", "instance", "m1:9100", "job", "node"),
			samples: []prompb.Sample{{Value: 1, Timestamp: 5000}, {Value: math.Float64frombits(0x7ff0000000000002),
				Timestamp: 6000}}},
		{labels: label("__name__", "up", "host", "m2", "tenant", "globex"),
			samples: []prompb.Sample{{Value: 0, Timestamp: -1}}},
		{labels: label("__name__", "latency", "instance", "m3"), histograms: []prompb.Histogram{
			{Count: &prompb.Histogram_CountInt{CountInt: 7}, Sum: 2.5, Timestamp: 5000},
			{Count: &prompb.Histogram_CountInt{CountInt: 0}, Sum: math.Float64frombits(0x7ff0000000000002), Timestamp: 6000},
		}},
	})
	require.Empty(t, got.Bad)
	job := telemetry.Labels{{Name: "job", Value: "node"}}
	require.Equal(t, []telemetry.Reading{{
		Tenant: "acme", Device: "m1:9100", Time: 5000, Labels: job,
		Fields: []telemetry.Field{
			{Metric: "temperature", Value: telemetry.FloatValue(73.9)}, {Metric: "up", Value: telemetry.FloatValue(1)},
		},
	}, {
		Tenant: "globex", Device: "m2", Time: -1, Fields: []telemetry.Field{{Metric: "up", Value: telemetry.FloatValue(0)}},
	}, {
		Tenant: "acme", Device: "m3", Time: 5000, Fields: []telemetry.Field{
			{Metric: "latency_count", Value: telemetry.IntValue(7)}, {Metric: "latency_sum", Value: telemetry.FloatValue(2.5)},
		},
	}}, got.Readings)
	require.Equal(t, []int{0, 2, 3}, got.Index)
	require.Equal(t, []decode.Unit{{Tenant: "acme", Metric: "temperature", Unit: "celsius"}}, got.Units)
}

// A series that is wrong costs only itself.
func TestRemoteWriteBadSeries(t *testing.T) {
	one := []prompb.Sample{{Value: 1, Timestamp: 5000}}
	for want, labels := range map[decode.Reason][]prompb.Label{
		decode.Device: label("__name__", "up", "job", "node"),
		decode.Tenant: label("__name__", "up", "instance", "m1", "tenant", "A"),
		decode.Name:   label("instance", "m1"),
	} {
		got := bothVersions(t, decode.Options{Tenant: "acme"}, []sent{
			{labels: labels, samples: one}, {labels: label("__name__", "up", "instance", "m1"), samples: one},
		})
		require.Len(t, got.Bad, 1)
		require.Equal(t, want, got.Bad[0].Reason, got.Bad[0].Detail)
		require.Zero(t, got.Bad[0].Index)
		require.Equal(t, []int{1}, got.Index)
	}
	got := bothVersions(t, decode.Options{Tenant: "acme"}, []sent{{labels: label("__name__", "x", "instance", "m1"),
		histograms: []prompb.Histogram{
			{Count: &prompb.Histogram_CountInt{CountInt: math.MaxUint64}, Timestamp: 5000}}}})
	require.Equal(t, decode.Value, got.Bad[0].Reason)
}

// Random series give the values that they were made of, in both versions and by a Decoder that knows the series or not.
func TestRemoteWriteAgainstTheOfficialEncoder(t *testing.T) {
	old := decode.New(decode.Options{Tenant: "acme"})
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		var series []sent
		want := values{}
		for i := range r.IntN(20) {
			instance, metric := fmt.Sprintf("m%d", r.IntN(3)), fmt.Sprintf("metric%d", i%7)
			s := sent{labels: label("__name__", metric, "a", strings.Repeat("é", r.IntN(3)), "instance", instance, "l",
				fmt.Sprint(i/7))}
			series = append(series, s)
			ls := telemetry.Labels{{Name: "a", Value: s.labels[1].Value}, {Name: "l", Value: s.labels[3].Value}}.NonEmpty()
			to := &series[len(series)-1]
			for j := range r.IntN(4) {
				at := int64(1763640000000 + j)
				if r.IntN(5) > 0 {
					v := randomFloat(r)
					to.samples = append(to.samples, prompb.Sample{Value: v, Timestamp: at})
					want.put("acme", instance, at, ls, metric, telemetry.FloatValue(v+0))
					continue
				}
				h := prompb.Histogram{Count: &prompb.Histogram_CountFloat{CountFloat: r.Float64()}, Sum: r.NormFloat64(),
					Timestamp: at}
				to.histograms = append(to.histograms, h)
				want.put("acme", instance, at, ls, metric+"_count",
					telemetry.FloatValue(h.Count.(*prompb.Histogram_CountFloat).CountFloat))
				want.put("acme", instance, at, ls, metric+"_sum", telemetry.FloatValue(h.Sum))
			}
		}
		if len(series) == 0 {
			continue
		}
		got := bothVersions(t, decode.Options{Tenant: "acme"}, series)
		require.Empty(t, got.Bad, "seed %d", seed)
		require.Equal(t, want, flat(t, got), "seed %d", seed)
		require.Equal(t, want, flat(t, old.Decode(version1(t, series))), "seed %d", seed)
		require.Equal(t, want, flat(t, old.Decode(version2(t, series))), "seed %d", seed)
	}
}

// Little that claims to be much is refused before memory is taken for it, and what is much is refused by its size.
func TestRemoteWriteBombs(t *testing.T) {
	refused := func(value []byte, contentType string, want decode.Reason) {
		got := decode.New(decode.Options{Tenant: "acme"}).Decode(decode.Record{Value: value, ContentType: contentType})
		require.Empty(t, got.Readings)
		require.Len(t, got.Bad, 1)
		require.Equal(t, want, got.Bad[0].Reason, got.Bad[0].Detail)
	}
	refused([]byte("\xff\xff\xff\xff\x0f\x00"), write1, decode.Undecodable) // says 4 GiB in two bytes
	refused(snappy.Encode(nil, make([]byte, 17<<20)), write1, decode.TooLarge)
	refused([]byte("plain"), write1, decode.Undecodable)

	long := strings.Repeat("x", 1<<15)
	req := writev2.Request{Symbols: []string{"", "__name__", "up", "instance", "m1", "a", long}}
	for range 4000 {
		req.Timeseries = append(req.Timeseries, writev2.TimeSeries{LabelsRefs: []uint32{1, 2, 3, 4, 5, 6},
			Samples: []writev2.Sample{{Value: 1}}})
	}
	b, err := req.Marshal()
	require.NoError(t, err)
	refused(snappy.Encode(nil, b), write2, decode.TooLarge)
	req.Timeseries = req.Timeseries[:1]
	req.Timeseries[0].LabelsRefs = append(req.Timeseries[0].LabelsRefs, 6, 6, 6, 6)
	b, err = req.Marshal()
	require.NoError(t, err)
	refused(snappy.Encode(nil, b), write2, decode.TooLarge)
	req.Timeseries[0].LabelsRefs = []uint32{1, 99}
	b, err = req.Marshal()
	require.NoError(t, err)
	refused(snappy.Encode(nil, b), write2, decode.Undecodable)
}

// The header that Prometheus sends with version 1.0 names no message: the encoding distinguishes it from OTLP.
func TestProtobufFormatFromHeaders(t *testing.T) {
	r := version1(t, []sent{{labels: label("__name__", "up", "instance", "m1"),
		samples: []prompb.Sample{{Value: 1, Timestamp: 5000}}}})
	r.ContentType = "application/x-protobuf"
	d := decode.New(decode.Options{Tenant: "acme"})
	require.Equal(t, decode.Undecodable, d.Decode(r).Bad[0].Reason)
	r.Headers = []decode.Header{{Key: "Content-Encoding", Value: []byte("snappy")}}
	require.Len(t, d.Decode(r).Readings, 1)
}
