package tenant

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"binnacle/internal/erasure"
	"binnacle/internal/store"

	"binnacle/internal/telemetry"
)

// KindAnnotations is the kind of the documents in the container control that held all annotations of a tenant. What is
// found there is moved with the next change. Before a dot and the tenant's name it is the kind of documents of one
// annotation each, which are apart from control: what tenants write must not spend what all roles need.
const KindAnnotations = "annotations"

// The most that annotations of a tenant may be.
const (
	MaxAnnotations    = 500
	MaxAnnotationText = 500 // bytes
	MaxAnnotationTags = 10
	maxAnnotationTag  = 50 // bytes
)

// Annotation is a note of a tenant about an instant or a range of time, such as a deploy.
type Annotation struct {
	ID   string   `json:"id"`
	Time int64    `json:"time"`              // ms since 1970 UTC
	End  int64    `json:"timeEnd,omitempty"` // 0: an instant
	Text string   `json:"text"`
	Tags []string `json:"tags"`
	By   string   `json:"by"`      // the name of the caller who made it
	Made int64    `json:"created"` // ms since 1970 UTC
	// Account names the account from which a copy of the tenant took it.
	Account string `json:"-"`
}

// Last returns the last instant of an annotation, in ms since 1970 UTC.
func (a Annotation) Last() int64 { return max(a.Time, a.End) }

// Check returns the first fault of a new annotation, with the member that has it.
func (a Annotation) Check() (member string, err error) {
	const (
		// Times before firstTime, in 1973, are seconds.
		firstTime = 100_000_000_000
		lastTime  = 253_402_300_800_000 // the year 10000
	)
	switch {
	case a.Time < firstTime || a.Time >= lastTime:
		return "time", fmt.Errorf("%d; allowed are milliseconds since 1970 UTC, from 1973 to 9999", a.Time)
	case a.End != 0 && (a.End < a.Time || a.End >= lastTime):
		return "timeEnd", fmt.Errorf("%d; allowed are milliseconds since 1970 UTC, from time (%d) on", a.End, a.Time)
	case strings.TrimSpace(a.Text) == "" || len(a.Text) > MaxAnnotationText || !utf8.ValidString(a.Text):
		return "text", fmt.Errorf("has %d bytes; allowed is a text of 1 to %d", len(a.Text), MaxAnnotationText)
	case len(a.Tags) > MaxAnnotationTags:
		return "tags", fmt.Errorf("there are %d; allowed are %d", len(a.Tags), MaxAnnotationTags)
	}
	for _, tag := range a.Tags {
		if strings.TrimSpace(tag) == "" || len(tag) > maxAnnotationTag || !utf8.ValidString(tag) {
			return "tags", fmt.Errorf("%.100q; allowed are texts of 1 to %d bytes", tag, maxAnnotationTag)
		}
	}
	return "", nil
}

// annotationsBody is a document of control: docs/internals/format/control.md.
type annotationsBody struct {
	Annotations []Annotation `json:"annotations"`
}

// annotationBody is a document of one annotation: docs/internals/format/heat.md.
type annotationBody struct {
	Annotation Annotation `json:"annotation"`
	TTL        int64      `json:"ttl"` // seconds until the store deletes it; -1: never
	// Gone marks a removed annotation, of which only the id is kept for a while.
	Gone    bool   `json:"gone,omitempty"`
	Account string `json:"account,omitempty"`
}

// Annotations keeps the annotations of tenants. It is safe for any number of callers.
type Annotations struct {
	control  store.Documents
	docs     store.Documents
	erasures func(tenant string) erasure.List

	mu sync.Mutex // guards below
	// old holds the annotations of older versions by tenant.
	old map[string]oldAnnotations
}

// oldAnnotations are annotations that are still in the container control.
type oldAnnotations struct {
	all  []Annotation
	etag string
	at   time.Time
}

// NewAnnotations makes Annotations over their documents, and those of control that older versions have written. What it
// lists is without what the orders of erasure that are known hide.
func NewAnnotations(control, docs store.Documents, erasures func(tenant string) erasure.List) *Annotations {
	return &Annotations{control: control, docs: docs, erasures: erasures, old: map[string]oldAnnotations{}}
}

// ErrTooManyAnnotations says that a tenant has as many annotations as it may.
var ErrTooManyAnnotations = errors.New("the tenant has as many annotations as it may")

// List returns the annotations of a tenant by time.
func (s *Annotations) List(ctx context.Context, tenant string) ([]Annotation, error) {
	all, err := s.all(ctx, tenant)
	out := make([]Annotation, 0, len(all))
	for _, a := range all {
		if !hides(s.erasures(tenant), a) {
			out = append(out, a.Annotation)
		}
	}
	return out, err
}

// Add adds an annotation, with a new id, and removes annotations that end before an instant.
func (s *Annotations) Add(ctx context.Context, tenant string, a Annotation, before int64) (Annotation, error) {
	a.ID = strings.ToLower(rand.Text()[:12])
	if err := s.move(ctx, tenant); err != nil {
		return a, err
	}
	left, _, err := s.remove(ctx, tenant, func(x stored) bool { return x.Last() < before })
	if err != nil {
		return a, err
	}
	if left >= MaxAnnotations {
		return a, ErrTooManyAnnotations
	}
	return a, s.create(ctx, tenant, stored{Annotation: a})
}

// Merge adds annotations that another account has, under their ids: as many of the newest as there is room for, without
// what the orders of erasure that are known here hide.
func (s *Annotations) Merge(ctx context.Context, tenant, account string, others []Annotation) error {
	if err := s.move(ctx, tenant); err != nil {
		return err
	}
	all, err := s.all(ctx, tenant)
	if err != nil {
		return err
	}
	n, orders := len(all), s.erasures(tenant)
	for _, other := range slices.Backward(others) {
		a := stored{Annotation: other}
		a.Account = erasure.Via(account, other.Account)
		isHere := slices.ContainsFunc(all, func(x stored) bool { return x.ID == a.ID })
		if n >= MaxAnnotations || isHere || hides(orders, a) {
			continue
		}
		if err := s.create(ctx, tenant, a); err != nil {
			return err
		}
		n++
	}
	return nil
}

// Remove removes the annotations of a tenant that match, and returns their number.
func (s *Annotations) Remove(ctx context.Context, tenant string, match func(Annotation) bool) (removed int, err error) {
	if err := s.move(ctx, tenant); err != nil {
		return 0, err
	}
	_, removed, err = s.remove(ctx, tenant, func(a stored) bool { return match(a.Annotation) })
	return removed, err
}

// Erase removes the annotations that an order of erasure is about.
func (s *Annotations) Erase(ctx context.Context, o *erasure.Order) error {
	err := s.move(ctx, o.Tenant)
	if err == nil {
		_, _, err = s.remove(ctx, o.Tenant, func(a stored) bool { return hides(erasure.List{o}, a) })
	}
	return err
}

// Left returns how many annotations are stored that an order of erasure is about.
func (s *Annotations) Left(ctx context.Context, o *erasure.Order) (left int, err error) {
	all, err := s.all(ctx, o.Tenant)
	for _, a := range all {
		if hides(erasure.List{o}, a) {
			left++
		}
	}
	return left, err
}

// hides reports whether an acknowledged order about all of the tenant covers an annotation: one that was made
// before the order, or up to a minute later, because clocks differ.
func hides(list erasure.List, a stored) bool {
	return slices.ContainsFunc(list, func(e *erasure.Order) bool {
		return e.IsAcknowledged() && e.IsWhole() && e.Device == "" && e.IsAbout(a.Account) &&
			a.Made <= e.At.Add(time.Minute).UnixMilli()
	})
}

// stored is an annotation with the ETag of its document, empty for one that is in control.
type stored struct {
	Annotation
	etag string
}

func (s *Annotations) all(ctx context.Context, tenant string) (out []stored, err error) {
	old, err := s.inControl(ctx, tenant)
	if err != nil {
		return nil, err
	}
	docs, err := s.docs.List(ctx, annotationsOf(tenant))
	if err != nil {
		return nil, fmt.Errorf("list annotations of %s: %w", tenant, err)
	}
	known := make(map[string]bool, len(docs))
	for _, d := range docs {
		var body annotationBody
		if err := d.Decode(&body); err != nil {
			return nil, fmt.Errorf("list annotations of %s: %w", tenant, err)
		}
		if known[d.ID] = true; !body.Gone {
			body.Annotation.Account = body.Account
			out = append(out, stored{body.Annotation, d.ETag})
		}
	}
	for _, a := range old.all {
		if !known[a.ID] {
			out = append(out, stored{Annotation: a})
		}
	}
	slices.SortFunc(out, func(a, b stored) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Made, b.Made), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

func annotationsOf(tenant string) string { return KindAnnotations + "." + tenant }

func documentOf(tenant string, body annotationBody) store.Document {
	return store.NewDocument(annotationsOf(tenant), body.Annotation.ID, body)
}

func (s *Annotations) create(ctx context.Context, tenant string, a stored) error {
	_, err := s.docs.Create(ctx, documentOf(tenant, annotationBody{Annotation: a.Annotation, TTL: -1, Account: a.Account}))
	// An id is a digest of its content.
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("store annotations of %s: %w", tenant, err)
	}
	return nil
}

// goneFor is for how many seconds an annotation that was removed stays in the store, so that one that is moved out of
// control during the move does not come back.
const goneFor = 24 * 60 * 60

// remove removes annotations that match, and returns how many are left and how many it has removed.
func (s *Annotations) remove(ctx context.Context, tenant string, match func(stored) bool) (left, removed int,
	err error) {
	err = store.Contend(ctx, func() error {
		all, err := s.all(ctx, tenant)
		if err != nil {
			return err
		}
		left = len(all)
		for _, a := range all {
			if a.etag == "" || !match(a) {
				continue
			}
			gone := documentOf(tenant, annotationBody{Annotation: Annotation{ID: a.ID}, TTL: goneFor, Gone: true})
			gone.ETag = a.etag
			if _, err := s.docs.Replace(ctx, gone); err != nil {
				return fmt.Errorf("remove annotations of %s: %w", tenant, err)
			}
			left--
			removed++
		}
		return nil
	})
	return left, removed, err
}

// oldKept is for how long what control has of a tenant is known: no question of a tenant reads control each time.
const oldKept = time.Minute

// mostOld bounds the number of tenants in old.
const mostOld = 10_000

// inControl returns the annotations of a tenant that are in control, as they were a moment ago.
func (s *Annotations) inControl(ctx context.Context, tenant string) (old oldAnnotations, err error) {
	if err := telemetry.CheckTenant(tenant); err != nil {
		return old, err
	}
	s.mu.Lock()
	old, known := s.old[tenant]
	s.mu.Unlock()
	if known && time.Since(old.at) < oldKept {
		return old, nil
	}
	d, found, err := s.control.Read(ctx, KindAnnotations, tenant)
	old = oldAnnotations{etag: d.ETag, at: time.Now()}
	if err == nil && found {
		var body annotationsBody
		err = d.Decode(&body)
		old.all = body.Annotations
	}
	if err != nil {
		return old, fmt.Errorf("read annotations of %s: %w", tenant, err)
	}
	s.keep(tenant, old)
	return old, nil
}

func (s *Annotations) keep(tenant string, old oldAnnotations) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.old) >= mostOld {
		clear(s.old)
	}
	s.old[tenant] = old
}

// move moves the annotations of a tenant out of control: each is in both places before it is in one.
func (s *Annotations) move(ctx context.Context, tenant string) error {
	return store.Contend(ctx, func() error {
		old, err := s.inControl(ctx, tenant)
		if err != nil || len(old.all) == 0 {
			return err
		}
		for _, a := range old.all {
			if err := s.create(ctx, tenant, stored{Annotation: a}); err != nil {
				return err
			}
		}
		empty := store.NewDocument(KindAnnotations, tenant, annotationsBody{[]Annotation{}})
		empty.ETag = old.etag
		_, err = s.control.Replace(ctx, empty)
		s.mu.Lock()
		delete(s.old, tenant)
		s.mu.Unlock()
		if err != nil {
			return fmt.Errorf("move annotations of %s: %w", tenant, err)
		}
		return nil
	})
}
