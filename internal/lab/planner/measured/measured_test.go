package measured_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/broker"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/lab/planner"
	"binnacle/internal/lab/planner/measured"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Trucks report every ten seconds, meters every minute, for an hour that ends with a day.
const (
	trucks = 10
	meters = 4
)

var begin = time.Date(2026, 11, 19, 23, 0, 0, 0, time.UTC)

func published() (out []kafka.Message) {
	add := func(at time.Time, r telemetry.Reading) {
		out = append(out, kafka.Message{Time: at, Key: []byte(r.Device), Value: decode.AppendJSON(nil, r)})
	}
	var all []*fleet.Truck
	for i := range trucks {
		all = append(all, fleet.NewTruck(3, i, begin))
	}
	for n := range 360 {
		at := begin.Add(time.Duration(n) * 10 * time.Second)
		for i, truck := range all {
			tenant := []string{"acme", "globex"}[i%2]
			add(at, telemetry.Reading{Tenant: tenant, Device: truck.ID(), Time: at.UnixMilli(), Fields: truck.Next(at)})
		}
		for i := 0; n%6 == 0 && i < meters; i++ {
			add(at, telemetry.Reading{Tenant: "acme", Device: fmt.Sprint("meter-", i), Time: at.UnixMilli(),
				Fields: []telemetry.Field{{Metric: "mode", Value: telemetry.IntValue(int64(n / 120 % 2))},
					{Metric: "on", Value: telemetry.BoolValue(n%30 == 0)},
					{Metric: "phase", Value: telemetry.TextValue([]string{"one", "two"}[n/60%2])},
					{Metric: "power", Value: telemetry.FloatValue(float64(n%50) + 0.5)},
					{Metric: "total", Value: telemetry.IntValue(int64(n * (i + 1)))}}})
		}
	}
	return out
}

// hold is that of a load that is stored by the end of its day.
const hold = "hold=12h"

// A topic's measured workload equals the published one. The plan expects as many bytes per value as an ingester stored.
func TestMeasuredWorkload(t *testing.T) {
	messages := published()
	stored := storeAll(t, messages)
	require.Len(t, stored, trucks+meters)

	topic := publish(t, messages)
	found, err := topic.Read(t.Context())
	require.NoError(t, err)
	require.Contains(t, found.Notes[0], fmt.Sprintf("%d records of topic telemetry", len(messages)))

	w := found.Workload
	require.EqualValues(t, 2, w.Tenants.Count.High)
	require.InDelta(t, 9.0/14, w.Tenants.Largest.High, 1e-9)
	require.Len(t, w.Fleets, 2)
	for i, want := range []struct {
		devices int
		every   time.Duration
		metrics map[string]float64
		prefix  string
	}{
		{trucks, 10 * time.Second, nil, "truck"},
		{meters, time.Minute, map[string]float64{"gauge": 1, "counter": 1, "state": 1,
			"bool": 1, "text": 1}, "meter"},
	} {
		f := w.Fleets[i]
		require.EqualValues(t, want.devices, f.Devices.High)
		require.Equal(t, want.every.Seconds(), f.Interval.High)
		require.Zero(t, f.Late.High)
		got, sum := map[string]float64{}, 0.0
		for kind, n := range f.Metrics {
			got[kind] = n.High
			sum += n.High
		}
		if want.metrics != nil {
			require.Equal(t, want.metrics, got)
		} else {
			require.EqualValues(t, 10, sum, "metrics of a truck")
		}
		bytes, values := 0.0, 0.0
		for device, c := range stored {
			if device[:5] == want.prefix {
				bytes, values = bytes+c.bytes, values+c.values
			}
		}
		t.Logf("%s: %.3f bytes per value measured, %.3f stored", want.prefix, f.Bytes.High, bytes/values)
		require.InEpsilon(t, bytes/values, f.Bytes.High, 0.1)
		require.Equal(t, planner.Measured, f.Bytes.Basis)
	}
	again(t, found)

	late(t, topic)
	_, err = measured.Topic{Kafka: topic.Kafka, Name: "missing", Records: 10}.Read(t.Context())
	require.ErrorContains(t, err, "no such topic: missing")
}

// late checks that what comes after its day is late and nothing else.
func late(t *testing.T, topic measured.Topic) {
	client, err := kafka.New(topic.Kafka)
	require.NoError(t, err)
	defer client.Close()
	var batch []kafka.Message
	for i := range 20 {
		at := begin.Add(time.Duration(i) * time.Second)
		r := telemetry.Reading{Tenant: "acme", Device: "meter-0", Time: at.UnixMilli(),
			Fields: []telemetry.Field{{Metric: "power", Value: telemetry.FloatValue(0.5)}}}
		batch = append(batch, kafka.Message{Time: begin.Add(2 * time.Hour), Value: decode.AppendJSON(nil, r)})
	}
	_, err = client.Topic("telemetry").Produce(t.Context(), 0, batch)
	require.NoError(t, err)
	found, err := topic.Read(t.Context())
	require.NoError(t, err)
	readings := float64(trucks*360 + meters*60)
	require.InDelta(t, 20/(readings+20), found.Workload.Fleets[1].Late.High, 1e-9)
	require.Equal(t, 60.0, found.Workload.Fleets[1].Interval.High)

}

// again checks that the file of a workload is planned as the workload, and says what figures rest on until one is
// changed.
func again(t *testing.T, found measured.Result) {
	text, err := found.YAML()
	require.NoError(t, err)
	w, err := planner.Parse(text, []string{hold})
	require.NoError(t, err, string(text))
	require.Equal(t, found.Workload.Fleets[0].Devices, w.Fleets[0].Devices)
	require.Equal(t, found.Workload.Fleets[0].Metrics["gauge"], w.Fleets[0].Metrics["gauge"])
	plan, err := planner.New(w, 1, 20)
	require.NoError(t, err)
	devices, values, bytes := plan.Figures[0], plan.Figures[2], plan.Figures[3]
	require.Equal(t, planner.Measured, devices.Basis)
	require.InEpsilon(t, 10+5*4/60.0, values.P50, 0.001)
	require.InEpsilon(t, w.Fleets[0].Bytes.High, bytes.P50, 0.15, "with what documents take beside values")

	w, err = planner.Parse(text, []string{"fleets.fleet-1.devices=70"})
	require.NoError(t, err)
	require.Equal(t, planner.Given, w.Fleets[0].Devices.Basis)
	require.Equal(t, planner.Measured, w.Fleets[1].Devices.Basis)
}

// publish puts messages into a topic of two partitions.
func publish(t *testing.T, messages []kafka.Message) measured.Topic {
	embedded, err := broker.Open(broker.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Partitions: 2,
		Topics: []string{"telemetry"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, embedded.Close()) })
	cfg := kafka.Config{Brokers: []string{embedded.Addr()}}
	client, err := kafka.New(cfg)
	require.NoError(t, err)
	defer client.Close()
	var parts [2][]kafka.Message
	for _, m := range messages {
		p := kafka.PartitionOf(m.Key, []int{0, 1})
		parts[p] = append(parts[p], m)
	}
	for p, of := range parts {
		for len(of) > 0 {
			n, err := client.Topic("telemetry").Produce(t.Context(), p, of)
			require.NoError(t, err)
			of = of[n:]
		}
	}
	return measured.Topic{Kafka: cfg, Name: "telemetry", Records: 10_000}
}

// storedDevice is what an ingester has stored of a device, without what each document takes.
type storedDevice struct{ bytes, values float64 }

// storeAll has an ingester store the readings of messages, and returns what it has stored by device.
func storeAll(t *testing.T, messages []kafka.Message) map[string]storedDevice {
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	client, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport()})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.EnsureBase(t.Context()))
	now := begin
	dir := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(),
		Now: func() time.Time { return now }})
	_, err = dir.Register(t.Context(), "globex")
	require.NoError(t, err)
	view, err := dir.Register(t.Context(), "acme")
	require.NoError(t, err)
	acme, ok := view.Tenant("acme")
	require.True(t, ok)
	month := acme.Placement.ContainerOn(telemetry.DayOf(begin.UnixMilli()))
	require.NoError(t, client.Containers().Create(t.Context(), month, store.Throughput{RUs: 400}))
	require.NoError(t, dir.AskMonth(t.Context(), month, ""))

	cfg := ingest.Config{Config: worker.Config{Register: true, Hold: 12 * time.Hour},
		Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)}
	l := ingest.NewLocal(cfg, ingest.Stores{Chunks: client.Chunks(), Directory: dir, Catalog: client.Catalog(),
		Streams: stream.NewStreams(client.Documents())}, worker.Assignment{Stream: 1})
	for i, m := range messages {
		now = m.Time
		require.NoError(t, l.Take(t.Context(), admit.Record{Offset: int64(i), Time: now.UnixMilli(), Value: m.Value}))
	}
	require.NoError(t, l.Finish(t.Context()))

	out := map[string]storedDevice{}
	scan := store.HeaderScan{Container: month, Day: telemetry.DayOf(begin.UnixMilli()), Whole: true}
	_, err = client.Chunks().Headers(t.Context(), scan, func(doc []byte) error {
		c, err := chunk.Parse(doc)
		require.NoError(t, err)
		overhead, err := chunk.Overhead(doc)
		require.NoError(t, err)
		f, err := c.Frame(nil)
		require.NoError(t, err)
		d := out[c.Header.Device]
		out[c.Header.Device] = storedDevice{d.bytes + float64(len(doc)-overhead), d.values + float64(f.Values())}
		return nil
	})
	require.NoError(t, err)
	return out
}
