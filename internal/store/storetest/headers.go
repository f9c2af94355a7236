package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"binnacle/internal/store"
	"binnacle/sharding"
)

var _ store.HeaderReader = (*Memory)(nil)

// Headers implements store.HeaderReader.
func (m *Memory) Headers(ctx context.Context, s store.HeaderScan,
	yield func(header []byte) error) (store.Usage, error) {
	usage := store.Usage{Receipt: store.Receipt{RUs: 3}}
	if f := m.call(ctx, Op{Kind: Headers, Key: sharding.Key{Container: s.Container}}); f.Err != nil {
		return usage, f.Err
	}
	docs, ok := m.ofDay(s)
	if !ok {
		return usage, store.ErrNoContainer
	}
	return lending{usage, s.Charge, docs}.to(ctx, yield)
}

// ofDay returns the documents or headers of a scan; ok is false when the container is missing.
func (m *Memory) ofDay(s store.HeaderScan) (docs [][]byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in, ok := m.containers[s.Container]
	for p, doc := range in {
		h := m.parse(doc)
		byID := p.id >= s.Day.String()+"." && p.id < (s.Day+1).String()+"."
		byRows := h.From < s.Day.End() && h.To >= s.Day.Start()
		if (byID || byRows) && (s.Device == "" || p.device == s.Device) &&
			(s.Tenant == "" || strings.HasPrefix(p.tenantShard, s.Tenant+"~")) {
			if doc = bytes.Clone(doc); !s.Whole {
				doc = header(doc)
			}
			docs = append(docs, doc)
		}
	}
	return docs, ok
}

// header returns a document with its header's properties alone.
func header(doc []byte) []byte {
	var all map[string]json.RawMessage
	// What does not parse was reported when it was created.
	_ = json.Unmarshal(doc, &all)
	for name := range all {
		if !slices.Contains(store.HeaderProperties(), name) {
			delete(all, name)
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		panic(err) // raw messages that were parsed
	}
	return out
}

// Damage stores any document under a key and id; nil removes the document.
func (m *Memory) Damage(key sharding.Key, id string, doc []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := place{key.TenantShard, key.Device, id}
	if doc == nil {
		delete(m.containers[key.Container], at)
		return
	}
	m.containers[key.Container][at] = bytes.Clone(doc)
	m.stamp(key.Container, at, nil)
}
