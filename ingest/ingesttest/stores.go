// Package ingesttest is what tests of ingest and of its protocol share: stores in memory, and what must hold of them.
package ingesttest

import (
	"sort"
	"sync"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// Stores is everything outside that survives the death of a process, but the log.
type Stores struct {
	T       testing.TB
	Chunks  *storetest.Memory
	Docs    *storetest.Documents
	Catalog *storetest.Catalog

	mu       sync.Mutex // guards below
	stored   map[Series]telemetry.Value
	storedAt int // Chunks.Writes when stored was made
}

// NewStores makes empty stores, with containers for the months given.
func NewStores(t testing.TB, months ...string) *Stores {
	s := &Stores{T: t, Chunks: storetest.NewMemory(t), Docs: storetest.NewDocuments(t),
		Catalog: storetest.NewCatalog(t)}
	for _, month := range months {
		s.Chunks.CreateContainer("chunks-" + month)
	}
	return s
}

// Series names one value: a series and an instant.
type Series struct {
	Device, Labels, Metric string
	Time                   int64
}

// Stored merges all chunks: every series and instant has the value with the highest through. Chunks are decoded only
// after a write, since tests that wait for something call Stored again and again. Callers must not change the result.
func (s *Stores) Stored() map[Series]telemetry.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.Chunks.Writes(); s.stored == nil || at != s.storedAt {
		s.stored, s.storedAt = s.merged(), at
	}
	return s.stored
}

func (s *Stores) merged() map[Series]telemetry.Value {
	out, from := map[Series]telemetry.Value{}, map[Series]store.Source{}
	for _, d := range s.Chunks.Documents() {
		c, err := chunk.Parse(d.Doc)
		require.NoError(s.T, err)
		frame, err := c.Frame(nil)
		require.NoError(s.T, err)
		source := store.Source{Stream: c.Header.ID.Stream, Partition: c.Header.ID.Partition, Through: c.Header.Through}
		Merge(out, from, d.Key.Device, source, frame)
	}
	return out
}

// Merge adds the values of a frame to out, and their source to from: the newest value wins.
func Merge(out map[Series]telemetry.Value, from map[Series]store.Source, device string, source store.Source,
	f chunk.Frame) {
	for _, g := range f.Groups {
		for _, c := range g.Columns {
			k := 0
			for row, at := range g.Times {
				if c.Present != nil && !c.Present.Has(row) {
					continue
				}
				s := Series{device, string(g.Labels.AppendKey(nil)), c.Metric, at}
				if old, ok := from[s]; !ok || old.Compare(source) < 0 {
					out[s], from[s] = c.Value(k), source
				}
				k++
			}
		}
	}
}

// CheckChains holds I3 and I4: chunks of a chain are numbered without a gap, follow each other, and share no record.
func (s *Stores) CheckChains() {
	type chain struct {
		device string
		id     chunk.ID
	}
	chains := map[chain][]chunk.Header{}
	for _, d := range s.Chunks.Documents() {
		c, err := chunk.Parse(d.Doc)
		require.NoError(s.T, err)
		key := chain{d.Key.Device, c.Header.ID}
		key.id.Number = 0
		chains[key] = append(chains[key], c.Header)
	}
	for key, chunks := range chains {
		sort.Slice(chunks, func(i, j int) bool { return chunks[i].ID.Number < chunks[j].ID.Number })
		after := int64(-1)
		for i, h := range chunks {
			require.EqualValues(s.T, i, h.ID.Number, "I4: %v has a gap", key)
			require.Equal(s.T, after, h.After, "I4: %v number %d", key, i)
			require.Greater(s.T, h.First, after, "I3: %v number %d overlaps", key, i)
			require.GreaterOrEqual(s.T, h.Through, h.First)
			after = h.Through
		}
	}
}

// Headers returns the headers of all chunks.
func (s *Stores) Headers() (out []chunk.Header) {
	for _, d := range s.Chunks.Documents() {
		c, err := chunk.Parse(d.Doc)
		require.NoError(s.T, err)
		out = append(out, c.Header)
	}
	return out
}
