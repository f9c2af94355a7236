package storetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"binnacle/internal/store"
)

// The operations that a Fault may be given for.
const (
	OpCreate  = "create"
	OpReplace = "replace"
	OpList    = "list"
	OpRead    = "read"
	OpDelete  = "delete"
	OpChanges = "changes"
)

// Documents is store.Documents and store.Feed in memory. It fails the test when a caller breaks a rule of the
// contract. Its hooks are set before it is used. See NewDocuments.
type Documents struct {
	// Fault is asked before each operation; nil, or an answer of nil, lets it happen. It is called without a lock.
	Fault func(op, kind, id string) *Fault
	// Lagging reports whether a List or Read of this kind, or Changes of all kinds (""), is answered by a replica that
	// misses the last write.
	Lagging func(kind string) bool

	t testing.TB

	mu       sync.Mutex // guards below
	version  int
	docs     map[documentKey]store.Document
	previous map[documentKey]store.Document // docs without the last write
}

type documentKey struct{ kind, id string }

// NewDocuments makes an empty set of documents.
func NewDocuments(t testing.TB) *Documents {
	return &Documents{t: t, docs: make(map[documentKey]store.Document)}
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9._~-]{1,255}$`)

// Kinds are the kinds of documents that may be stored.
var Kinds = []string{
	"tenant", "epoch", "stream", "mark", "month", "backfill", "lease", "token", "action", "decision", "sweep", "erasure",
	"annotations", "account",
}

// Create implements store.Documents.
func (m *Documents) Create(ctx context.Context, d store.Document) (string, error) {
	m.check(d)
	if d.ETag != "" {
		m.t.Errorf("create %s/%s with an ETag", d.Kind, d.ID)
	}
	return m.write(ctx, OpCreate, d, func(_ store.Document, found bool) error {
		if found {
			return store.ErrExists
		}
		return nil
	})
}

// Replace implements store.Documents.
func (m *Documents) Replace(ctx context.Context, d store.Document) (string, error) {
	m.check(d)
	if d.ETag == "" {
		m.t.Errorf("replace %s/%s without an ETag", d.Kind, d.ID)
	}
	return m.write(ctx, OpReplace, d, func(old store.Document, found bool) error {
		if !found || old.ETag != d.ETag {
			return store.ErrChanged
		}
		return nil
	})
}

// List implements store.Documents.
func (m *Documents) List(ctx context.Context, kind string) ([]store.Document, error) {
	if f := m.fault(ctx, OpList, kind, ""); f != nil {
		return nil, f.Err
	}
	lagging := m.Lagging != nil && m.Lagging(kind)
	m.mu.Lock()
	defer m.mu.Unlock()
	from := m.docs
	if lagging {
		from = m.previous
	}
	var out []store.Document
	for k, d := range from {
		if k.kind == kind {
			d.Body = bytes.Clone(d.Body)
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b store.Document) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// Read implements store.Documents.
func (m *Documents) Read(ctx context.Context, kind, id string) (store.Document, bool, error) {
	if f := m.fault(ctx, OpRead, kind, id); f != nil {
		return store.Document{}, false, f.Err
	}
	lagging := m.Lagging != nil && m.Lagging(kind)
	m.mu.Lock()
	defer m.mu.Unlock()
	from := m.docs
	if lagging {
		from = m.previous
	}
	d, found := from[documentKey{kind, id}]
	d.Body = bytes.Clone(d.Body)
	return d, found, nil
}

// Changes implements store.Feed. A mark is the number of the last write that it has returned.
func (m *Documents) Changes(ctx context.Context, mark string, _ time.Time) ([]store.Document, string, error) {
	if f := m.fault(ctx, OpChanges, "", ""); f != nil {
		return nil, "", f.Err
	}
	lagging := m.Lagging != nil && m.Lagging("")
	m.mu.Lock()
	defer m.mu.Unlock()
	from, until := m.docs, m.version
	if lagging && until > 0 {
		from, until = m.previous, until-1
	}
	since := 0
	if mark != "" {
		var err error
		if since, err = strconv.Atoi(mark); err != nil {
			m.t.Errorf("the mark %q was never returned", mark)
		}
	}
	var out []store.Document
	for _, d := range from {
		if version(d) > since {
			d.Body = bytes.Clone(d.Body)
			out = append(out, d)
		}
	}
	return out, strconv.Itoa(max(since, until)), nil
}

// version returns the number of the write that a document was last changed by.
func version(d store.Document) int {
	n, _ := strconv.Atoi(strings.Trim(d.ETag, `"`)) // it is ours
	return n
}

func (m *Documents) write(ctx context.Context, op string, d store.Document,
	may func(old store.Document, found bool) error) (string, error) {
	f := m.fault(ctx, op, d.Kind, d.ID)
	if f != nil && !f.Applied {
		return "", f.Err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := documentKey{d.Kind, d.ID}
	old, found := m.docs[key]
	err := may(old, found)
	if err == nil {
		m.version++
		d.ETag = strconv.Quote(strconv.Itoa(m.version))
		d.Modified = time.Now().Truncate(time.Second)
		d.Body = bytes.Clone(d.Body)
		m.previous = maps.Clone(m.docs)
		m.docs[key] = d
	}
	if f != nil {
		return "", f.Err
	}
	if err != nil {
		return "", err
	}
	return d.ETag, nil
}

func (m *Documents) fault(ctx context.Context, op, kind, id string) *Fault {
	if err := ctx.Err(); err != nil {
		return &Fault{Err: err}
	}
	if m.Fault == nil {
		return nil
	}
	return m.Fault(op, kind, id)
}

func (m *Documents) check(d store.Document) {
	if kind, _, _ := strings.Cut(d.Kind, "."); !slices.Contains(Kinds, kind) {
		m.t.Errorf("document %s/%s: unknown kind", d.Kind, d.ID)
	}
	if !idPattern.MatchString(d.ID) {
		m.t.Errorf("document %s/%q: an id is 1 to 255 of A-Z a-z 0-9 . _ ~ -", d.Kind, d.ID)
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(d.Body, &body); err != nil || body == nil {
		m.t.Errorf("document %s/%s: the body is no JSON object: %.200s", d.Kind, d.ID, d.Body)
	}
	for name := range body {
		if name == "id" || name == "kind" || name == "" || name[0] == '_' {
			m.t.Errorf("document %s/%s: property %q belongs to the store", d.Kind, d.ID, name)
		}
	}
}
