package heatlog_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// memory is a store of heat that checks the rules of the contract.
type memory struct {
	docs map[string]map[string]stored // by key and id
	fail error                        // of the next creates
}

type stored struct {
	from int64
	store.HeatDocument
}

func (m *memory) CreateHeat(_ context.Context, d store.HeatDocument) (store.Receipt, error) {
	if m.fail != nil {
		return store.Receipt{}, m.fail
	}
	if _, ok := m.docs[d.Key][d.ID]; ok {
		return store.Receipt{}, store.ErrExists
	}
	var p struct{ From int64 }
	if err := json.Unmarshal(d.Body, &p); err != nil {
		return store.Receipt{}, err
	}
	if m.docs == nil {
		m.docs = map[string]map[string]stored{}
	}
	if m.docs[d.Key] == nil {
		m.docs[d.Key] = map[string]stored{}
	}
	m.docs[d.Key][d.ID] = stored{p.From, d}
	return store.Receipt{RUs: 6}, nil
}

func (m *memory) ReadHeat(_ context.Context, q store.HeatQuery, yield func([]byte) error) (store.Usage, error) {
	var all []stored
	for _, d := range m.docs[q.Key] {
		if d.from >= q.From && d.from < q.To {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b stored) int { return cmp.Compare(a.from, b.from) })
	for _, d := range all {
		if err := yield(d.Body); err != nil {
			return store.Usage{}, err
		}
	}
	return store.Usage{}, nil
}

// put stores a frame of one key.
func (m *memory) put(t *testing.T, f heat.Frame, rus float64) {
	t.Helper()
	cell := heat.Cell{Key: heat.KeyOf("chunks-2026-11", "acme~1")}
	cell.RUs[heat.ChunkWrites] = rus
	f.Cells = []heat.Cell{cell}
	doc, err := f.Encode()
	require.NoError(t, err)
	_, err = m.CreateHeat(t.Context(), store.HeatDocument{Key: string(f.Layer),
		ID: fmt.Sprint(f.From, f.Writer, f.Part), Body: doc})
	require.NoError(t, err)
}

// base is a midnight.
var base = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC).UnixMilli()

// Whatever layers a time has been thinned to, it counts once.
func TestFramesCoverTimeOnce(t *testing.T) {
	m := &memory{}
	minutes := func(from, to int64) {
		for at := from; at < to; at += heat.Minute {
			for _, writer := range []string{"a", "b"} {
				m.put(t, heat.Frame{Layer: heat.Minutes, From: at, To: at + heat.Minute, Writer: writer}, 0.5)
			}
		}
	}
	// Two days ago: a day. Yesterday: hours. Today: hours until 02:00, and minutes all along, until 03:30.
	m.put(t, heat.Frame{Layer: heat.Days, From: base - 2*heat.Day, To: base - heat.Day}, 1440)
	for h := int64(-48); h < 2; h++ {
		m.put(t, heat.Frame{Layer: heat.Hours, From: base + h*heat.Hour, To: base + (h+1)*heat.Hour}, 60)
	}
	m.put(t, heat.Frame{Layer: heat.Hours, From: base + 2*heat.Hour, To: base + 3*heat.Hour, Of: 2}, 60) // half of it
	minutes(base-2*heat.Hour, base+3*heat.Hour+heat.Hour/2)

	r := heatlog.NewReader(m)
	for _, step := range []int64{heat.Minute, 10 * heat.Minute, heat.Hour, heat.Day} {
		g, err := r.Grid(t.Context(), "chunks-2026-11", heat.Span{From: base - 2*heat.Day, To: base + heat.Day, Step: step})
		require.NoError(t, err)
		require.Len(t, g.Rows, 1)
		sum := g.Rows[0].Total()
		require.InDelta(t, 2*1440+210, sum.Total(), 1e-6, "step %d", step)
	}
	g, err := r.Grid(t.Context(), "chunks-2026-11", heat.Span{From: base + heat.Hour, To: base + 4*heat.Hour,
		Step: heat.Minute})
	require.NoError(t, err)
	for col := range 150 {
		require.InDelta(t, 1, g.Rows[0].Amounts[col].RUs[heat.ChunkWrites], 1e-9, col)
	}
}
