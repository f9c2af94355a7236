package heatlog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/heatlog"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// memory is a store of heat that checks the rules of the contract.
type memory struct {
	docs map[string]store.HeatDocument
	fail error // of the next creates
}

func (m *memory) CreateHeat(_ context.Context, d store.HeatDocument) (store.Receipt, error) {
	at := d.Key + "/" + d.ID
	switch _, ok := m.docs[at]; {
	case m.fail != nil:
		return store.Receipt{}, m.fail
	case ok:
		return store.Receipt{}, store.ErrExists
	}
	if m.docs == nil {
		m.docs = map[string]store.HeatDocument{}
	}
	m.docs[at] = d
	return store.Receipt{RUs: 6}, nil
}

func (m *memory) ReadHeat(_ context.Context, q store.HeatQuery, yield func([]byte) error) (store.Usage, error) {
	type found struct {
		from int64
		doc  []byte
	}
	var all []found
	for _, d := range m.docs {
		var p struct{ From int64 }
		if err := json.Unmarshal(d.Body, &p); err != nil {
			return store.Usage{}, err
		}
		if d.Key == q.Key && p.From >= q.From && p.From < q.To {
			all = append(all, found{p.From, d.Body})
		}
	}
	slices.SortFunc(all, func(a, b found) int { return strings.Compare(fmt.Sprint(a.from), fmt.Sprint(b.from)) })
	for _, f := range all {
		if err := yield(f.doc); err != nil {
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
