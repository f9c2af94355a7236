package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/broker"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/telemetry"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// message is what a reader of the topic sees.
type message struct {
	Tenant, Device string
	TS             int64
	Values         map[string]float64
	Tags           map[string]string
}

func parse(t *testing.T, value []byte) message {
	t.Helper()
	got := decode.New(decode.Options{}).Decode(decode.Record{Value: value})
	require.Empty(t, got.Bad, string(value))
	require.Len(t, got.Readings, 1)
	r := got.Readings[0]
	m := message{r.Tenant, r.Device, r.Time, map[string]float64{}, r.Tags.Map()}
	for _, f := range r.Fields {
		require.Equal(t, telemetry.Float, f.Value.Kind())
		m.Values[f.Metric] = f.Value.Float()
	}
	require.Len(t, m.Values, 10)
	return m
}

// memory is a Publisher with scripted answers.
type memory struct {
	t      *testing.T
	answer func(attempt int, records []fleet.Record) ([]fleet.Record, error)

	attempts int
	arrived  []message
	at       []time.Time
	busy     bool
}

func (m *memory) Publish(_ context.Context, records []fleet.Record) ([]fleet.Record, error) {
	require.False(m.t, m.busy, "called by one goroutine at a time")
	require.NotEmpty(m.t, records)
	m.busy = true
	defer func() { m.busy = false }()
	m.attempts++
	var left []fleet.Record
	var err error
	if m.answer != nil {
		left, err = m.answer(m.attempts, records)
	}
	for _, r := range records {
		if slices.ContainsFunc(left, func(l fleet.Record) bool { return bytes.Equal(l.Value, r.Value) }) {
			continue
		}
		got := parse(m.t, r.Value)
		require.Equal(m.t, got.Tenant+"/"+got.Device, string(r.Key))
		m.arrived = append(m.arrived, got)
		m.at = append(m.at, time.Now())
	}
	return left, err
}

// run lets a fleet report for a while, on the clock of a synctest bubble.
func run(t *testing.T, cfg fleet.Config, d time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	require.NoError(t, fleet.New(cfg).Run(ctx))
}

func TestEveryDeviceReportsAtItsPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(123456789 * time.Nanosecond) // not on the grid
		began := time.Now()
		m := &memory{t: t}
		run(t, fleet.Config{Publisher: m, Devices: 20, Seed: 7}, 60*time.Second)
		require.Len(t, m.arrived, 20*60)
		trucks := map[string]*fleet.Truck{}
		for i, got := range m.arrived {
			n, at := -1, time.UnixMilli(got.TS)
			_, err := fmt.Sscanf(got.Device, "truck-%04d", &n)
			require.NoError(t, err)
			require.Equal(t, []string{"acme", "globex"}[n%2], got.Tenant)
			require.EqualValues(t, n*50, got.TS%1000, "device i reports at i/N of the interval")
			require.True(t, at.After(began))
			require.False(t, m.at[i].Before(at), "nothing is reported before it is measured")
			require.Less(t, m.at[i].Sub(at), 20*time.Millisecond)

			first := trucks[got.Device] == nil
			if first {
				trucks[got.Device] = fleet.NewTruck(7, n, at)
				require.Equal(t, trucks[got.Device].Tags().Map(), got.Tags)
			} else {
				require.Nil(t, got.Tags)
			}
			want := map[string]float64{}
			for _, f := range trucks[got.Device].Next(at) {
				want[f.Metric] = f.Value.Float()
				if f.Value.Kind() == telemetry.Int {
					want[f.Metric] = float64(f.Value.Int())
				}
			}
			require.Equal(t, want, got.Values)
		}
		require.Len(t, trucks, 20)
	})
}

func TestTagsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{t: t}
		run(t, fleet.Config{Publisher: m, Devices: 1, Tenants: []string{"x"}, Interval: time.Minute}, time.Hour)
		var tagged []int
		for i, got := range m.arrived {
			require.Equal(t, "x", got.Tenant)
			if got.Tags != nil {
				tagged = append(tagged, i)
			}
		}
		require.Equal(t, []int{0, 10, 20, 30, 40, 50}, tagged)
	})
}

func TestLargeFleetPublishesInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{t: t}
		run(t, fleet.Config{Publisher: m, Devices: 10_000}, 2*time.Second)
		require.InDelta(t, 20_000, len(m.arrived), 200)
		require.InDelta(t, 200, m.attempts, 10, "a batch every 10 ms")
	})
}

func TestUndeliveredMessagesAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		down := errors.New("broker down")
		var offered []int
		m := &memory{t: t}
		m.answer = func(attempt int, records []fleet.Record) ([]fleet.Record, error) {
			offered = append(offered, len(records))
			switch {
			case attempt == 1:
				return nil, nil
			case attempt == 2:
				return records, down
			case attempt < 8:
				return records[len(records)-1:], down
			}
			return nil, nil
		}
		run(t, fleet.Config{
			Publisher: m, Devices: 3, Interval: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}, 30*time.Second)
		require.Equal(t, []int{3, 3, 3, 1, 1, 1, 1, 1}, offered[:8])
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("broker down")), "an outage is one line, not one a try")
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("publishing readings works again")))
		seen := map[string]bool{}
		last := map[string]int64{}
		for _, got := range m.arrived {
			id := fmt.Sprint(got.Device, got.TS)
			require.False(t, seen[id], "twice")
			seen[id] = true
			if before, ok := last[got.Device]; ok {
				require.EqualValues(t, 10, got.TS-before, "in order, and none left out")
			}
			last[got.Device] = got.TS
		}
	})
}

func TestLongOutageDropsOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := &memory{t: t}
		m.answer = func(_ int, records []fleet.Record) ([]fleet.Record, error) {
			if time.Since(began) < 10*time.Minute {
				return records, errors.New("down")
			}
			return nil, nil
		}
		run(t, fleet.Config{Publisher: m, Devices: 2}, 11*time.Minute)
		require.Less(t, m.attempts, 300, "pauses get longer")
		// The batch in hand, the minute before the outage's end, and the minute after it.
		require.InDelta(t, 1+120+120, len(m.arrived), 15)
		for _, got := range m.arrived[2:] {
			require.Greater(t, got.TS, began.Add(9*time.Minute-time.Second).UnixMilli())
		}
	})
}

func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := func() time.Time {
			if time.Since(began) > 10*time.Second {
				return time.Now().Add(-time.Hour)
			}
			return time.Now()
		}
		m := &memory{t: t}
		run(t, fleet.Config{Publisher: m, Devices: 1, Now: now}, 20*time.Second)
		require.InDelta(t, 20, len(m.arrived), 2)
		require.Less(t, m.arrived[len(m.arrived)-1].TS, began.UnixMilli())
	})
}

func TestStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{t: t, answer: func(_ int, r []fleet.Record) ([]fleet.Record, error) { return r, errors.New("down") }}
		began := time.Now()
		run(t, fleet.Config{Publisher: m, Devices: 5}, 17*time.Second)
		require.Equal(t, 17*time.Second, time.Since(began))
		began = time.Now()
		run(t, fleet.Config{Publisher: m}, time.Second)
		require.Equal(t, time.Second, time.Since(began), "a fleet without devices waits too")
	})
}

func TestConfigFaults(t *testing.T) {
	err := fleet.New(fleet.Config{Tenants: []string{"NO"}, Devices: -1, Interval: time.Microsecond}).Run(t.Context())
	for _, fault := range []string{"needs a topic", `"NO"`, "-1 devices", "1µs"} {
		require.ErrorContains(t, err, fault)
	}
}

// Through kafka-go and the embedded broker: nothing is listening at first.
func TestPublishesToKafka(t *testing.T) {
	const devices = 40
	embedded := broker.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Topics: []string{"telemetry"}}
	b, err := broker.Open(embedded)
	require.NoError(t, err)
	embedded.Addr = b.Addr()
	require.NoError(t, b.Close())

	cluster, err := kafka.New(kafka.Config{Brokers: []string{embedded.Addr}})
	require.NoError(t, err)
	defer cluster.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- fleet.New(fleet.Config{
			Topic: cluster.Topic("telemetry"), Devices: devices, Interval: 100 * time.Millisecond,
		}).Run(ctx)
	}()
	b, err = broker.Open(embedded)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()

	last := map[string]int64{}
	for partition := range 4 {
		r := kafkago.NewReader(kafkago.ReaderConfig{
			Brokers: []string{embedded.Addr}, Topic: "telemetry", Partition: partition, MaxWait: 100 * time.Millisecond,
		})
		reports := map[string]int{}
		for range 100 {
			record, err := r.ReadMessage(t.Context())
			require.NoError(t, err)
			got := parse(t, record.Value)
			require.Equal(t, got.Tenant+"/"+got.Device, string(record.Key))
			want := kafkago.Murmur2Balancer{}.Balance(kafkago.Message{Key: record.Key}, 0, 1, 2, 3)
			require.Equal(t, want, partition, "where Java's producer puts the key")
			require.Equal(t, reports[got.Device] == 0, got.Tags != nil)
			require.Greater(t, got.TS, last[got.Device])
			reports[got.Device]++
			last[got.Device] = got.TS
		}
		require.NoError(t, r.Close())
	}
	require.Len(t, last, devices)
	stop()
	require.NoError(t, <-done)
}
