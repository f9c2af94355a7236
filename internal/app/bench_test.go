package app_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/decode"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/ops"
	"binnacle/internal/telemetry"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// BenchmarkPipeline is the whole way in one process: records in a topic to chunks stored, through the embedded broker
// and the embedded Cosmos DB. A device reports ten metrics a second; its readings are in the topic before the clock
// starts. CPU is that of the process, broker and store included.
func BenchmarkPipeline(b *testing.B) {
	const devices, perDevice, metrics = 100, 3600, 10
	for b.Loop() {
		b.StopTimer()
		s := newSystem(b)
		s.publishTrucks(devices, perDevice)
		registry := prometheus.NewRegistry()
		b.StartTimer()
		cpu := processCPU()
		began := time.Now()
		p := s.process(func(c *ingest.Config) {
			c.Hold, c.Registerer, c.CommitEvery = time.Hour, registry, 50*time.Millisecond
			c.UseJournal = "off" // stopping writes everything then
		})
		require.Eventually(b, p.CaughtUp, time.Minute, time.Millisecond)
		p.stop() // cuts everything and commits
		took, used := time.Since(began), processCPU()-cpu
		b.StopTimer()
		values := float64(devices * perDevice * metrics)
		require.Equal(b, values, gathered(b, registry, "binnacle_ingest_stored_values_total"))
		bytes, rus := s.stored()
		b.ReportMetric(values/took.Seconds(), "values/s")
		b.ReportMetric(float64(used.Nanoseconds())/values, "CPU-ns/value")
		b.ReportMetric(bytes/values, "B/value")
		b.ReportMetric(rus/values*1e6, "modelled-RU/Mvalue")
		s.close()
		b.StartTimer()
	}
}

// publishTrucks puts an hour or so of trucks into the topic, in the order of time.
func (s *system) publishTrucks(devices, each int) {
	start := time.UnixMilli(noon()).UTC()
	trucks := make([]*fleet.Truck, devices)
	for i := range trucks {
		trucks[i] = fleet.NewTruck(1, i, start)
	}
	w := &kafka.Writer{
		Addr: kafka.TCP(s.broker.Addr()), Topic: ops.Topic, Balancer: kafka.Murmur2Balancer{}, RequiredAcks: kafka.RequireAll,
		BatchSize: 5000, BatchTimeout: time.Millisecond, BatchBytes: 900_000, Compression: kafka.Lz4,
	}
	for i := range each {
		at := start.Add(time.Duration(i) * time.Second)
		messages := make([]kafka.Message, devices)
		for d, truck := range trucks {
			id := fmt.Sprintf("truck-%04d", d)
			r := telemetry.Reading{Tenant: "acme", Device: id, Time: at.UnixMilli(), Fields: truck.Next(at)}
			messages[d] = kafka.Message{Key: []byte("acme/" + id), Value: decode.AppendJSON(nil, r), Time: at}
		}
		s.queue = append(s.queue, messages...)
		if len(s.queue) >= 20_000 || i == each-1 {
			require.NoError(s.t, w.WriteMessages(context.Background(), s.queue...))
			s.queue = s.queue[:0]
		}
	}
	require.NoError(s.t, w.Close())
}

// stored is the bytes of items in the containers of chunks, and the request units they took.
func (s *system) stored() (bytes, rus float64) {
	container := "chunks-" + telemetry.MonthOf(noon()).String()
	partitions, err := s.emulator.Partitions("binnacle", container)
	require.NoError(s.t, err)
	for _, p := range partitions {
		bytes += float64(p.Bytes)
		rus += p.RUs
	}
	return bytes, rus
}

func gathered(b *testing.B, r prometheus.Gatherer, name string) (sum float64) {
	families, err := r.Gather()
	require.NoError(b, err)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += value(m)
			}
		}
	}
	return sum
}

func value(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }

// processCPU is the user and system time of this process so far.
func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
