package heatlog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/charges/ru"
	"binnacle/internal/heat"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/retry"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// PutHeat stores a document in place of another one.
func (m *memory) PutHeat(ctx context.Context, d store.HeatDocument) (store.Receipt, error) {
	if m.fail == nil {
		delete(m.docs[d.Key], d.ID)
	}
	return m.CreateHeat(ctx, d)
}

// Through a store that is away now and then, the stored counters are those of a minute ago at the oldest, and in the
// end those of the process.
func TestChargesAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		counter := charges.NewCounter("ingest-1")
		w := heatlog.NewChargesWriter(counter, m, retry.Trouble{Log: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		r := heatlog.NewReader(m)
		stored := func() (sum float64) {
			all, err := r.Charges(t.Context(), charges.MonthOf(time.Now()))
			require.NoError(t, err)
			for _, a := range all.Rows {
				sum += a.RUs
			}
			return sum
		}
		rng := rand.New(rand.NewPCG(20, 1))
		for range 200 {
			time.Sleep(time.Duration(rng.IntN(20)) * time.Second)
			counter.Count(time.Now(), charges.Charge{Tenant: "acme", Kind: charges.Chunks, RUs: 7})
			m.fail = nil
			if rng.IntN(4) == 0 {
				m.fail = errors.New("the store is away")
			}
		}
		m.fail = nil
		time.Sleep(2 * time.Minute)
		require.InDelta(t, 1400, stored(), 10)
		// What a minute's writing takes a hundred times is stored at once.
		counter.Count(time.Now(), charges.Charge{Tenant: "acme", Kind: charges.Chunks, RUs: 5000})
		time.Sleep(2 * time.Second)
		require.InDelta(t, 6400, stored(), 10)
		counter.Count(time.Now(), charges.Charge{Tenant: "acme", Kind: charges.Chunks, RUs: 1})
		stop()
		require.NoError(t, <-done)
		require.InDelta(t, 6401, stored(), 10)
	})
}

// charging is a store that charges writes, by other prices than the model's, to the counter that stores there.
type charging struct {
	memory
	counter *charges.Counter
	stored  map[string]bool
}

// PutHeat stores a document in place of another one.
func (m *charging) PutHeat(ctx context.Context, d store.HeatDocument) (store.Receipt, error) {
	rus := 2 * ru.Stepped.Write(len(d.Body)+100, 6)
	if m.stored[d.ID] {
		rus = 2 * ru.Stepped.Replace(len(d.Body)+100, len(d.Body)+100, 0)
	}
	_, err := m.memory.PutHeat(ctx, d)
	m.stored[d.ID] = true
	m.counter.Count(time.Now(), charges.Charge{Container: store.HeatContainer, Kind: charges.Control, RUs: rus})
	return store.Receipt{RUs: rus}, err
}

// What storing charges takes is in what is stored when a process ends, also the last write of all.
func TestStoringChargesIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &charging{counter: charges.NewCounter("ingest-1"), stored: map[string]bool{}}
		w := heatlog.NewChargesWriter(m.counter, m, retry.Trouble{Log: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		for i := range 300 {
			m.counter.Count(time.Now(), charges.Charge{Tenant: fmt.Sprint("t", i), Kind: charges.Queries, RUs: 7,
				Source: &charges.Source{Query: "up"}})
			time.Sleep(time.Second)
		}
		stop()
		require.NoError(t, <-done)
		all, err := heatlog.NewReader(m).Charges(t.Context(), charges.MonthOf(time.Now()))
		require.NoError(t, err)
		require.InDelta(t, m.counter.RUs(), all.RUs(), 0.2, "but for hundredths")
	})
}

// account is containers as they are found.
type account []store.ContainerState

func (a account) List(context.Context) (names []string, err error) {
	for _, s := range a {
		if s.Name != store.Database {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

func (a account) ReadThroughput(_ context.Context, name string) (store.ContainerState, error) {
	for _, s := range a {
		if s.Name == name {
			return s, nil
		}
	}
	return store.ContainerState{}, store.ErrNoContainer
}

// Each hour from the first one with a load on is billed once, however many processes make it; autoscale by its busiest
// minute.
func TestHoursAreBilledOnce(t *testing.T) {
	m := &memory{}
	of := account{
		{Name: container, Throughput: store.Throughput{RUs: 4000, Autoscale: true}, GB: 3},
		{Name: "cold", Throughput: store.Throughput{Shared: true}},
		{Name: store.Database, Throughput: store.Throughput{RUs: 400}},
	}
	first := base - 5*heat.Hour
	for at := first; at < first+heat.Hour; at += 5 * heat.Minute {
		rus := 5 * 60 * 500.0
		if at == first+10*heat.Minute {
			rus = 5 * 60 * 900
		}
		m.put(t, heat.Frame{Layer: heat.Minutes, From: at, To: at + 5*heat.Minute, Writer: "a"}, rus)
	}
	for now := first - heat.Hour; now <= base+heat.Hour/2; now += heat.Hour / 3 {
		for range 2 {
			thinner := heatlog.NewThinner(m, func() time.Time { return time.UnixMilli(now) },
				slog.New(slog.DiscardHandler)).Bill(of)
			require.NoError(t, thinner.Round(t.Context()))
		}
	}
	hours, err := heatlog.NewReader(m).Hours(t.Context(), charges.MonthOf(time.UnixMilli(base)))
	require.NoError(t, err)
	require.Len(t, hours, 5)
	for i, h := range hours {
		require.EqualValues(t, first+int64(i)*heat.Hour, h.From)
		require.Len(t, h.Containers, 3)
	}
	byName := map[string]charges.Container{}
	for _, c := range hours[0].Containers {
		byName[c.Name] = c
	}
	require.InDelta(t, 900, byName[container].Busiest, 1)
	require.Equal(t, charges.Container{Name: "cold"}, byName["cold"])
	require.Equal(t, charges.Container{Name: store.Database, RUs: 400, Database: true}, byName[store.Database])
	require.Zero(t, hours[1].Containers[0].Busiest)
}
