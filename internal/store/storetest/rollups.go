package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/store"
	"binnacle/sharding"
)

// The operations of a store of rollups.
const (
	ReadRollup    Kind = "read rollup"
	CreateRollup  Kind = "create rollup"
	ReplaceRollup Kind = "replace rollup"
	DeleteRollup  Kind = "delete rollup"
	ScanRollups   Kind = "scan rollups"
)

// RollupOp is one call of a store of rollups, as a fault is asked for.
type RollupOp struct {
	Kind Kind
	Key  store.RollupKey
	ID   string // not of a scan
	Call int    // counts the calls of this kind from 1
}

// Rollups is store.RollupWriter in memory. It fails the test when a caller breaks a rule of the contract: a document
// that says something else than its key and id, that is neither rollup, series index nor manifest, or a rollup that is
// replaced. Set its fields before others use it.
type Rollups struct {
	// Behind is how far the replica lags that answers a read; nil for not at all.
	Behind func() time.Duration
	// Fault is asked before each call; nil, or an answer of nil, lets it happen. It is called without a lock.
	Fault func(RollupOp) *Fault

	t testing.TB

	shelf[rollupPlace, []rollupState]
}

var _ store.RollupWriter = (*Rollups)(nil)

type rollupPlace struct {
	key store.RollupKey
	id  string
}

// rollupState is a document from a moment on; without doc it is gone.
type rollupState struct {
	at    time.Time
	write int
	doc   []byte
}

// NewRollups makes a store with these containers.
func NewRollups(t testing.TB, containers ...string) *Rollups {
	v := &Rollups{t: t}
	v.begin(containers)
	return v
}

// call counts a call and gives its fault, and the moment that the answering replica shows.
func (v *Rollups) call(ctx context.Context, op RollupOp) (f Fault, as time.Time) {
	op.Call = v.count(op.Kind)
	as = v.now()
	if v.Behind != nil {
		as = as.Add(-v.Behind())
	}
	if err := ctx.Err(); err != nil {
		return Fault{Err: err}, as
	}
	if v.Fault != nil {
		if f := v.Fault(op); f != nil {
			return *f, as
		}
	}
	return Fault{}, as
}

// visible returns a document as it was at a moment, with what the store adds; nil if it was not there.
func (v *Rollups) visible(states []rollupState, as time.Time) (doc []byte, etag string) {
	for _, s := range slices.Backward(states) {
		if s.at.After(as) {
			continue
		}
		if ttl := rollupOf(s.doc).TTL; s.doc == nil || ttl > 0 && v.now().Unix() >= s.at.Unix()+ttl {
			return nil, ""
		}
		etag = fmt.Sprintf(`"%d"`, s.write)
		stamp := stamp{write: s.write, at: s.at.Unix()}
		return stamp.lend(s.doc), etag
	}
	return nil, ""
}

// ReadRollup implements store.RollupReader.
func (v *Rollups) ReadRollup(ctx context.Context, key store.RollupKey, id string) (store.Rollup, time.Time,
	store.Receipt, error) {
	f, as := v.call(ctx, RollupOp{Kind: ReadRollup, Key: key, ID: id})
	receipt := store.Receipt{RUs: 1}
	if f.Err != nil {
		return store.Rollup{}, time.Time{}, receipt, f.Err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	docs, ok := v.containers[key.Container]
	if !ok {
		return store.Rollup{}, v.now(), receipt, store.ErrNoContainer
	}
	doc, etag := v.visible(docs[rollupPlace{key, id}], as)
	if doc == nil {
		return store.Rollup{}, v.now(), receipt, store.ErrNotFound
	}
	return store.Rollup{Doc: doc, ETag: etag}, v.now(), receipt, nil
}

// CreateRollup implements store.RollupWriter.
func (v *Rollups) CreateRollup(ctx context.Context, key store.RollupKey, id string, doc []byte) (store.Receipt, error) {
	v.check(key, id, doc)
	return v.write(ctx, RollupOp{Kind: CreateRollup, Key: key, ID: id}, func(docs map[rollupPlace][]rollupState) error {
		at := rollupPlace{key, id}
		if now, _ := v.visible(docs[at], v.now()); now != nil {
			return &store.ExistsError{Session: session}
		}
		v.put(docs, at, doc)
		return nil
	})
}

// ReplaceRollup implements store.RollupWriter.
func (v *Rollups) ReplaceRollup(ctx context.Context, key store.RollupKey, id, etag string, doc []byte) (store.Receipt,
	error) {
	v.check(key, id, doc)
	if key.Name != rollup.ManifestKey {
		v.t.Errorf("replace %s: rollups are immutable", id)
	}
	return v.write(ctx, RollupOp{Kind: ReplaceRollup, Key: key, ID: id}, func(docs map[rollupPlace][]rollupState) error {
		at := rollupPlace{key, id}
		if _, now := v.visible(docs[at], v.now()); now == "" || now != etag {
			return store.ErrChanged
		}
		v.put(docs, at, doc)
		return nil
	})
}

// DeleteRollup implements store.RollupWriter.
func (v *Rollups) DeleteRollup(ctx context.Context, key store.RollupKey, id string) (store.Receipt, error) {
	return v.write(ctx, RollupOp{Kind: DeleteRollup, Key: key, ID: id}, func(docs map[rollupPlace][]rollupState) error {
		if at := (rollupPlace{key, id}); len(docs[at]) > 0 {
			v.put(docs, at, nil)
		}
		return nil
	})
}

// write does a write, unless a fault has it otherwise.
func (v *Rollups) write(ctx context.Context, op RollupOp, do func(map[rollupPlace][]rollupState) error) (store.Receipt,
	error) {
	f, _ := v.call(ctx, op)
	receipt := store.Receipt{RUs: 10}
	if f.Err != nil && !f.Applied {
		return receipt, f.Err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	docs, ok := v.containers[op.Key.Container]
	if !ok {
		return receipt, store.ErrNoContainer
	}
	if err := do(docs); f.Err == nil {
		return receipt, err
	}
	return receipt, f.Err
}

// put notes a state. The caller holds mu.
func (v *Rollups) put(docs map[rollupPlace][]rollupState, at rollupPlace, doc []byte) {
	v.writes++
	docs[at] = append(docs[at], rollupState{v.now(), v.writes, bytes.Clone(doc)})
}

// ScanRollups implements store.RollupReader.
func (v *Rollups) ScanRollups(ctx context.Context, s store.RollupScan, yield func(doc []byte) error) (store.Usage,
	error) {
	usage := store.Usage{Receipt: store.Receipt{RUs: 3}}
	f, as := v.call(ctx, RollupOp{Kind: ScanRollups, Key: s.Key})
	if f.Err != nil {
		return usage, f.Err
	}
	found, ok := v.matching(s, as)
	if !ok {
		return usage, store.ErrNoContainer
	}
	usage.Date = v.now().Truncate(time.Second)
	return lending{usage, s.Charge, found}.to(ctx, yield)
}

func (v *Rollups) matching(s store.RollupScan, as time.Time) (found [][]byte, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	docs, ok := v.containers[s.Key.Container]
	for at, states := range docs {
		of := at.key
		switch {
		case s.Key.Name != "":
		case s.Names == nil && of.Name != rollup.ManifestKey, slices.Contains(s.Names, of.Name):
			of.Name = ""
		}
		if of != s.Key {
			continue
		}
		doc, _ := v.visible(states, as)
		if doc == nil {
			continue
		}
		if p := rollupOf(doc); p.From < s.Range.To && p.To >= s.Range.From &&
			(s.Batches == nil || slices.Contains(s.Batches, p.Batch)) {
			found = append(found, doc)
		}
	}
	return found, ok
}

// rollupProperties are what the store looks at.
type rollupProperties struct {
	ID, Type, TenantShard, Rollup, Batch string
	From, To, TTL                        int64
}

func rollupOf(doc []byte) (p rollupProperties) {
	// What does not parse was reported when it was written.
	_ = json.Unmarshal(doc, &p)
	return p
}

// check reports what is wrong with a document that is about to be written.
func (v *Rollups) check(key store.RollupKey, id string, doc []byte) {
	p := rollupOf(doc)
	if p.ID != id || p.TenantShard != key.TenantShard || p.Rollup != key.Name {
		v.t.Errorf("write %s under %+v: the document says id %q, tenantShard %q, rollup %q", id, key, p.ID, p.TenantShard,
			p.Rollup)
	}
	if key.Name == rollup.ManifestKey {
		if _, err := rollup.ParseManifest(doc); err != nil {
			v.t.Errorf("write %s: %v", id, err)
		}
	} else if _, err := rollup.Parse(doc); err != nil {
		v.t.Errorf("write %s: %v", id, err)
	}
	if len(doc) > MaxDocument {
		v.t.Errorf("write %s: %d bytes", id, len(doc))
	}
	if _, _, ok := sharding.ParseRollupsContainer(key.Container); !ok || strings.Contains(id, "/") {
		v.t.Errorf("write %s: %s is no container of rollups, or the id is none", id, key.Container)
	}
}
