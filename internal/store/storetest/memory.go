// Package storetest holds strict fakes of the contracts in package store for tests, and the conformance suite of Log,
// which many packages implement. That of Heads is among the tests of package ingest. The tests of this package are the
// suites of the other contracts: they run over the fakes and, through internal/cosmos, over the emulator. An
// implementation that passes a suite may be used wherever the contract is asked for.
package storetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// MaxDocument is the largest document that Memory takes, in bytes: as Cosmos DB.
const MaxDocument = 2 << 20

// KeyBytes is what one partition key of Memory takes: very little, so that a test can fill it.
const KeyBytes = 4 << 20

// session is what an ExistsError of Memory carries.
const session = "0:1#7"

// Kind is what an operation does.
type Kind string

// The operations of a store.
const (
	Create  Kind = "create"
	Read    Kind = "read"
	Last    Kind = "last"
	Scan    Kind = "scan"
	Headers Kind = "headers"
	Delete  Kind = "delete"
	Replace Kind = "replace"
)

// Op is one call of a store, as a Fault is asked for.
type Op struct {
	Kind Kind
	Key  sharding.Key
	// ID belongs to create and read.
	ID string
	// Chain belongs to last.
	Chain store.Chain
	Call  int // counts the calls of this kind from 1
}

// Fault is an outcome that a test wants instead of the true one: of the store here, and of the control documents and
// the catalog.
type Fault struct {
	Applied bool  // the write happens all the same
	Err     error // the answer to the caller; nil leaves the true answer
	// Hide is how many of the newest chunks last does not see, as on a replica that lags.
	Hide int
}

// Memory is store.Writer and store.Reader in memory. It fails the test when a caller breaks a rule of
// the contract: a document that is no JSON object, or says something else than its key and id, or a
// chunk that does not follow the one before it in its chain. Set Fault before others use it.
type Memory struct {
	// Behind is how far a replica lags that answers a scan, Skew how much earlier than Now a document is stamped:
	// clocks differ, and step back. Nil is no lag. With Expiry, documents vanish when their ttl is over.
	Behind, Skew func() time.Duration
	Expiry       bool
	// Gone reports whether the chunk before one may be gone, because its day is hidden. Nil is no.
	Gone func(key sharding.Key, id chunk.ID) bool

	// Fault is asked before each call; nil, or an answer of nil, lets it happen. It is called without a lock.
	Fault func(Op) *Fault

	t testing.TB

	shelf[place, []byte]
	// mu guards all below.
	stamps map[stamped]stamp
	// parsed is keyed by the first byte of the stored document.
	parsed map[*byte]properties
}

// stamped is a document of a container.
type stamped struct {
	container string
	place
}

// stamp is what the store adds to a document.
type stamp struct {
	write int   // its number
	at    int64 // s since 1970 UTC
	// done is when the document was written.
	done time.Time
	// former is what was replaced: a replica that lags has it.
	former *former
}

type former struct {
	stamp
	doc []byte
}

// place is where a document is in its container.
type place struct{ tenantShard, device, id string }

// Stored is one document of a Memory.
type Stored struct {
	Key sharding.Key
	ID  string
	Doc []byte
}

// NewMemory makes a store with these containers.
func NewMemory(t testing.TB, containers ...string) *Memory {
	m := &Memory{t: t, stamps: make(map[stamped]stamp), parsed: make(map[*byte]properties)}
	m.begin(containers)
	return m
}

// Documents returns all that is stored, by container, key and id.
func (m *Memory) Documents() []Stored {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Stored
	for _, name := range slices.Sorted(maps.Keys(m.containers)) {
		for p, doc := range m.containers[name] {
			out = append(out, Stored{sharding.Key{Container: name, TenantShard: p.tenantShard, Device: p.device}, p.id,
				bytes.Clone(doc)})
		}
	}
	slices.SortFunc(out, func(a, b Stored) int {
		return cmp.Or(cmp.Compare(a.Key.Container, b.Key.Container), cmp.Compare(a.Key.TenantShard, b.Key.TenantShard),
			cmp.Compare(a.Key.Device, b.Key.Device), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Create implements store.Writer.
func (m *Memory) Create(ctx context.Context, key sharding.Key, id string, doc []byte) (store.Receipt, error) {
	m.check(key, id, doc)
	f := m.call(ctx, Op{Kind: Create, Key: key, ID: id})
	if f.Err != nil && !f.Applied {
		return store.Receipt{}, f.Err
	}
	err := m.create(key, id, doc)
	if f.Err != nil {
		return store.Receipt{}, f.Err
	}
	return store.Receipt{RUs: 10}, err
}

func (m *Memory) create(key sharding.Key, id string, doc []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	docs, ok := m.containers[key.Container]
	if !ok {
		return store.ErrNoContainer
	}
	at := place{key.TenantShard, key.Device, id}
	if _, ok := docs[at]; ok {
		return &store.ExistsError{Session: session}
	}
	if len(doc) > MaxDocument {
		return store.ErrTooLarge
	}
	if held(docs, at)+len(doc) > KeyBytes {
		return store.ErrKeyFull
	}
	docs[at] = bytes.Clone(doc)
	m.stamp(key.Container, at, nil)
	return nil
}

// DeleteChunk implements store.Deleter.
func (m *Memory) DeleteChunk(ctx context.Context, key sharding.Key, id string) (store.Receipt, error) {
	f := m.call(ctx, Op{Kind: Delete, Key: key, ID: id})
	if f.Err == nil || f.Applied {
		m.mu.Lock()
		delete(m.containers[key.Container], place{key.TenantShard, key.Device, id})
		m.writes++
		m.mu.Unlock()
	}
	return store.Receipt{RUs: 10}, f.Err
}

// ReplaceChunk implements store.Replacer. What takes the place of a chunk must continue the chain as it did, unless a
// fence gives way to it (rule T3).
func (m *Memory) ReplaceChunk(ctx context.Context, old store.Version, doc []byte) (store.Receipt, error) {
	m.check(old.Key, old.ID, doc)
	f := m.call(ctx, Op{Kind: Replace, Key: old.Key, ID: old.ID})
	if f.Err != nil && !f.Applied {
		return store.Receipt{}, f.Err
	}
	return store.Receipt{RUs: 16}, cmp.Or(f.Err, m.replace(old, doc))
}

func (m *Memory) replace(of store.Version, doc []byte) error {
	key := of.Key
	m.mu.Lock()
	defer m.mu.Unlock()
	at := place{key.TenantShard, key.Device, of.ID}
	old, ok := m.containers[key.Container][at]
	if !ok || fmt.Sprintf(`"%d"`, m.stamps[stamped{key.Container, at}].write) != of.ETag {
		return store.ErrChanged
	}
	fresh := bytes.Clone(doc)
	was, is := m.parse(old), m.parse(fresh)
	isFence := was.Rows != nil && *was.Rows == 0 && was.First == was.Through
	if was.After != is.After || !isFence && (was.First != is.First || was.Through != is.Through) {
		m.t.Errorf("replace %s: first, through or after has changed", of.ID)
	}
	m.containers[key.Container][at] = fresh
	m.stamp(key.Container, at, &former{m.stamps[stamped{key.Container, at}], old})
	return nil
}

// stamp notes a write, and what it replaces. The caller holds mu.
func (m *Memory) stamp(container string, at place, former *former) {
	m.writes++
	s := stamp{write: m.writes, former: former}
	if m.Now != nil {
		s.done = m.now()
		s.at = s.done.Unix()
		if m.Skew != nil {
			s.at = s.done.Add(-m.Skew()).Unix()
		}
	}
	m.stamps[stamped{container, at}] = s
}

// lend returns a document as a scan shows it, with the properties that the store adds. What is no object stays as it
// is.
func (s stamp) lend(doc []byte) []byte {
	if doc = bytes.Clone(doc); !bytes.HasSuffix(doc, []byte("}")) || len(doc) == 2 {
		return doc
	}
	return fmt.Appendf(doc[:len(doc)-1], `,"_etag":"\"%d\"","_ts":%d}`, s.write, s.at)
}

// replicaTime returns the moment that the answering replica shows. Zero is the present.
func (m *Memory) replicaTime() (as time.Time) {
	if m.Behind != nil {
		as = m.now().Add(-m.Behind())
	}
	return as
}

// isVisible reports whether a replica at a moment has a document.
func (m *Memory) isVisible(s stamp, p properties, as time.Time) bool {
	if m.Expiry && p.TTL != nil && m.now().Unix() >= s.at+int64(*p.TTL) {
		return false
	}
	return as.IsZero() || !s.done.After(as)
}

// held returns how many bytes the documents take that are under the same key.
func held(docs map[place][]byte, at place) (n int) {
	for p, doc := range docs {
		if p.tenantShard == at.tenantShard && p.device == at.device {
			n += len(doc)
		}
	}
	return n
}

// Read implements store.Writer.
func (m *Memory) Read(ctx context.Context, key sharding.Key, id, _ string) ([]byte, store.Receipt, error) {
	if f := m.call(ctx, Op{Kind: Read, Key: key, ID: id}); f.Err != nil {
		return nil, store.Receipt{}, f.Err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	docs, ok := m.containers[key.Container]
	if !ok {
		return nil, store.Receipt{RUs: 1}, store.ErrNoContainer
	}
	doc, ok := docs[place{key.TenantShard, key.Device, id}]
	if !ok {
		return nil, store.Receipt{RUs: 1}, store.ErrNotFound
	}
	return bytes.Clone(doc), store.Receipt{RUs: 1}, nil
}

// Last implements store.Writer.
func (m *Memory) Last(ctx context.Context, key sharding.Key, chain store.Chain) (store.Tail, store.Receipt, error) {
	f := m.call(ctx, Op{Kind: Last, Key: key, Chain: chain})
	if f.Err != nil {
		return store.Tail{}, store.Receipt{}, f.Err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	docs, ok := m.containers[key.Container]
	if !ok {
		return store.Tail{}, store.Receipt{RUs: 3}, store.ErrNoContainer
	}
	var tails []store.Tail
	for p, doc := range docs {
		if p.tenantShard != key.TenantShard || p.device != key.Device {
			continue
		}
		if id, err := chunk.ParseID(p.id); err == nil && chainOf(id) == chain {
			last := m.parse(doc)
			tails = append(tails, store.Tail{Number: id.Number, Through: last.Through, From: last.From, To: last.To,
				Erased: last.Rows != nil && *last.Rows == 0})
		}
	}
	if len(tails) <= f.Hide {
		return store.Tail{}, store.Receipt{RUs: 3}, store.ErrNotFound
	}
	slices.SortFunc(tails, func(a, b store.Tail) int { return cmp.Compare(b.Number, a.Number) })
	return tails[f.Hide], store.Receipt{RUs: 3}, nil
}

// Scan implements store.Reader.
func (m *Memory) Scan(ctx context.Context, s store.Scan, yield func(doc []byte) error) (store.Usage, error) {
	usage := store.Usage{Receipt: store.Receipt{RUs: 3}}
	store.Charge(ctx, usage.RUs, false)
	if f := m.call(ctx, Op{Kind: Scan, Key: s.Key}); f.Err != nil {
		return usage, f.Err
	}
	usage.Date = m.now().Truncate(time.Second)
	docs, ok := m.matching(s)
	if !ok {
		return store.Usage{Receipt: usage.Receipt}, store.ErrNoContainer
	}
	return lending{usage, s.Charge, docs}.to(ctx, yield)
}

// lending is what a scan has found.
type lending struct {
	usage  store.Usage // but for the documents
	charge func(rus float64) error
	docs   [][]byte
}

// to charges the scan and lends its documents.
func (l lending) to(ctx context.Context, yield func(doc []byte) error) (store.Usage, error) {
	if l.charge != nil {
		if err := l.charge(l.usage.RUs); err != nil {
			return l.usage, err
		}
	}
	for _, doc := range l.docs {
		l.usage.Documents++
		err := yield(doc)
		clear(doc) // a caller that kept the bytes sees at once that it must not
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return l.usage, err
		}
	}
	return l.usage, nil
}

// matching returns the documents of a scan; ok is false when the container is missing.
func (m *Memory) matching(s store.Scan) (docs [][]byte, ok bool) {
	if len(s.Devices) > store.MaxScanDevices || s.Devices != nil && s.Key.Device != "" {
		m.t.Errorf("scan of %+v names %d devices", s.Key, len(s.Devices))
	}
	if len(s.Windows) > store.MaxScanWindows {
		m.t.Errorf("scan of %+v has %d windows", s.Key, len(s.Windows))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	in, ok := m.containers[s.Key.Container]
	if !ok {
		return nil, false
	}
	type found struct {
		from int64
		id   string
		doc  []byte
	}
	var all []found
	as := m.replicaTime()
	for p, doc := range in {
		if p.tenantShard == s.Key.TenantShard && (s.Key.Device == "" || p.device == s.Key.Device) &&
			(s.Devices == nil || slices.Contains(s.Devices, p.device)) {
			stamp := m.stamps[stamped{s.Key.Container, p}]
			if stamp.former != nil && !as.IsZero() && stamp.done.After(as) {
				stamp, doc = stamp.former.stamp, stamp.former.doc
			}
			h := m.parse(doc)
			if !m.isVisible(stamp, h, as) || s.Before > 0 && stamp.at >= s.Before {
				continue
			}
			if slices.ContainsFunc(s.AllWindows(), func(w store.Window) bool {
				return h.From < w.To && h.To >= w.From && stamp.at >= w.Since
			}) {
				all = append(all, found{h.From, p.device + p.id, stamp.lend(doc)})
			}
		}
	}
	slices.SortFunc(all, func(a, b found) int {
		order := cmp.Compare(a.from, b.from)
		switch {
		case s.Key.Device == "":
			order = 0
		case s.Descending:
			order = -order
		}
		return cmp.Or(order, strings.Compare(b.id, a.id))
	})
	out := make([][]byte, len(all))
	for i, f := range all {
		out[i] = f.doc
	}
	return out, true
}

// call counts a call and returns its fault, an empty one by default.
func (m *Memory) call(ctx context.Context, op Op) Fault {
	op.Call = m.count(op.Kind)
	if err := ctx.Err(); err != nil {
		return Fault{Err: err}
	}
	if m.Fault != nil {
		if f := m.Fault(op); f != nil {
			return *f
		}
	}
	return Fault{}
}

func chainOf(id chunk.ID) store.Chain {
	return store.Chain{Day: id.Day, Stream: id.Stream, Partition: id.Partition}
}

// properties are what a store looks at in a document.
type properties struct {
	ID          string `json:"id"`
	Type        string `json:"type"`
	TenantShard string `json:"tenantShard"`
	Device      string `json:"device"`
	From        int64  `json:"from"`
	To          int64  `json:"to"`
	First       int64  `json:"first"`
	Through     int64  `json:"through"`
	After       int64  `json:"after"`
	TTL         *int   `json:"ttl"`
	Rows        *int   `json:"rows"`
}

// parse returns the properties of a stored document. The bytes of one never change, so that each is decoded once. The
// caller holds mu.
func (m *Memory) parse(doc []byte) properties {
	key := unsafe.SliceData(doc)
	p, ok := m.parsed[key]
	if !ok {
		_ = json.Unmarshal(doc, &p)
		m.parsed[key] = p
	}
	return p
}

// check reports what is wrong with a document that is about to be created.
func (m *Memory) check(key sharding.Key, id string, doc []byte) {
	var p properties
	if err := json.Unmarshal(doc, &p); err != nil {
		m.t.Errorf("create %s: the document is no JSON object: %v", id, err)
		return
	}
	if p.ID != id || p.TenantShard != key.TenantShard || p.Device != key.Device {
		m.t.Errorf("create %s under %+v: the document says id %q, tenantShard %q, device %q", id, key, p.ID, p.TenantShard,
			p.Device)
	}
	if p.Type != "chunk" {
		m.t.Errorf("create %s: the document's type is %q", id, p.Type)
	}
	parsed, err := chunk.ParseID(id)
	if err != nil {
		m.t.Errorf("create %s: %v", id, err)
		return
	}
	day := telemetry.Range{From: parsed.Day.Start(), To: parsed.Day.End()}
	if p.From > p.To || !day.Contains(p.From) || !day.Contains(p.To) {
		m.t.Errorf("create %s: from %d to %d is not within the day", id, p.From, p.To)
	}
	if p.After >= p.First || p.First > p.Through || (parsed.Number == 0) != (p.After == -1) {
		m.t.Errorf("create %s: after %d, first %d, through %d do not follow", id, p.After, p.First, p.Through)
	}
	if p.TTL != nil && *p.TTL < 1 {
		m.t.Errorf("create %s: ttl %d", id, *p.TTL)
	}
	if _, of, ok := sharding.ParseContainer(key.Container); !ok || !of.Range().Contains(p.From) {
		m.t.Errorf("create %s: %s is not a container of its day", id, key.Container)
	}
	m.checkChain(key, parsed, p)
}

// checkChain holds I4 of the protocol: the numbers of a chain are dense, and after is the through of the chunk before.
// A heavy device's chunks lie under several keys of one container, which is why the key does not matter here.
func (m *Memory) checkChain(key sharding.Key, id chunk.ID, p properties) {
	if id.Number == 0 {
		return
	}
	before := id
	before.Number--
	wanted := before.String()
	tenant, _, _ := strings.Cut(key.TenantShard, "~")
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Gone != nil && m.Gone(key, id) {
		return // rule X2: one writer may begin a deleted chain again while another continues the old chain
	}
	for at, doc := range m.containers[key.Container] {
		if at.device != key.Device || at.id != wanted {
			continue
		}
		if owner, _, _ := strings.Cut(at.tenantShard, "~"); owner == tenant {
			if through := m.parse(doc).Through; through != p.After {
				m.t.Errorf("create %s: after is %d, but %s reaches %d", id, p.After, before, through)
			}
			return
		}
	}
	if m.containers[key.Container] != nil {
		m.t.Errorf("create %s: there is no %s", id, before)
	}
}
