package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"binnacle/internal/telemetry"
)

// KindAnnotations is the kind of the documents that hold the annotations of a tenant.
const KindAnnotations = "annotations"

// The most that annotations of a tenant may be: they are one document, which each change stores anew.
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
}

// Last returns the last instant of an annotation, in ms since 1970 UTC.
func (a Annotation) Last() int64 { return max(a.Time, a.End) }

// Check returns the first fault of an annotation that is to be made, with the member that has it.
func (a Annotation) Check() (member string, err error) {
	const (
		firstTime = 100_000_000_000     // in 1973; what is less are seconds
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

// annotationsBody is a document of annotations: docs/format/control.md.
type annotationsBody struct {
	Annotations []Annotation `json:"annotations"`
}

// Annotations keeps the annotations of tenants. It holds no state and is safe for any number of callers.
type Annotations struct {
	docs     Documents
	erasures func(tenant string) Erasures
}

// NewAnnotations makes Annotations over the control documents. What it lists is without what the orders of erasure that
// are known hide.
func NewAnnotations(docs Documents, erasures func(tenant string) Erasures) *Annotations {
	return &Annotations{docs, erasures}
}

// ErrTooManyAnnotations says that a tenant has as many annotations as it may.
var ErrTooManyAnnotations = errors.New("the tenant has as many annotations as it may")

// List returns the annotations of a tenant by time.
func (s *Annotations) List(ctx context.Context, tenant string) ([]Annotation, error) {
	_, body, err := s.read(ctx, tenant)
	return slices.DeleteFunc(body.Annotations, s.erasures(tenant).hidesAnnotation), err
}

// Add adds an annotation, with an id of its own, and leaves out those that end before an instant.
func (s *Annotations) Add(ctx context.Context, tenant string, a Annotation, before int64) (Annotation, error) {
	a.ID = strings.ToLower(rand.Text()[:12])
	return a, s.change(ctx, tenant, func(all []Annotation) ([]Annotation, error) {
		if slices.ContainsFunc(all, func(x Annotation) bool { return x.ID == a.ID }) {
			return nil, errUnchanged // it was stored by an attempt that looked like a failure
		}
		all = slices.DeleteFunc(all, func(x Annotation) bool { return x.Last() < before })
		if len(all) >= MaxAnnotations {
			return nil, ErrTooManyAnnotations
		}
		return append(all, a), nil
	})
}

// Merge adds annotations that another account has, under their ids: as many of the newest as there is room for.
func (s *Annotations) Merge(ctx context.Context, tenant string, others []Annotation) error {
	return s.change(ctx, tenant, func(all []Annotation) ([]Annotation, error) {
		before := len(all)
		for _, a := range slices.Backward(others) {
			if len(all) < MaxAnnotations && !slices.ContainsFunc(all, func(x Annotation) bool { return x.ID == a.ID }) {
				all = append(all, a)
			}
		}
		if len(all) == before {
			return nil, errUnchanged
		}
		return all, nil
	})
}

// Remove removes the annotations of a tenant that match, and returns their number.
func (s *Annotations) Remove(ctx context.Context, tenant string, match func(Annotation) bool) (removed int, err error) {
	err = s.change(ctx, tenant, func(all []Annotation) ([]Annotation, error) {
		rest := slices.DeleteFunc(slices.Clone(all), match)
		removed = max(removed, len(all)-len(rest))
		if len(rest) == len(all) {
			return nil, errUnchanged
		}
		return rest, nil
	})
	return removed, err
}

// Erase removes the annotations that an order of erasure is about, and returns their number.
func (s *Annotations) Erase(ctx context.Context, o *Erasure) (int, error) {
	return s.Remove(ctx, o.Tenant, Erasures{o}.hidesAnnotation)
}

// Left returns how many annotations are stored that an order of erasure is about.
func (s *Annotations) Left(ctx context.Context, o *Erasure) (left int, err error) {
	_, body, err := s.read(ctx, o.Tenant)
	for _, a := range body.Annotations {
		if (Erasures{o}).hidesAnnotation(a) {
			left++
		}
	}
	return left, err
}

// hidesAnnotation reports whether an acknowledged order about all of the tenant covers an annotation: one that was made
// before the order, or up to a minute later, because clocks differ.
func (list Erasures) hidesAnnotation(a Annotation) bool {
	return slices.ContainsFunc(list, func(e *Erasure) bool {
		return e.IsAcknowledged() && e.IsWhole() && e.Device == "" && a.Made <= e.At.Add(time.Minute).UnixMilli()
	})
}

// errUnchanged says that there is nothing to store.
var errUnchanged = errors.New("nothing changes")

// change stores the annotations of a tenant anew.
func (s *Annotations) change(ctx context.Context, tenant string, to func([]Annotation) ([]Annotation, error)) error {
	return contend(ctx, func() error {
		etag, body, err := s.read(ctx, tenant)
		if err != nil {
			return err
		}
		body.Annotations, err = to(body.Annotations)
		if errors.Is(err, errUnchanged) {
			return nil
		}
		if err != nil {
			return err
		}
		slices.SortFunc(body.Annotations, func(a, b Annotation) int {
			return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Made, b.Made), cmp.Compare(a.ID, b.ID))
		})
		d := newDocument(KindAnnotations, tenant, body)
		d.ETag = etag
		if _, err = put(ctx, s.docs, d); err != nil {
			return fmt.Errorf("store annotations of %s: %w", tenant, err)
		}
		return nil
	})
}

func (s *Annotations) read(ctx context.Context, tenant string) (etag string, body annotationsBody, err error) {
	if err := telemetry.CheckTenant(tenant); err != nil {
		return "", body, err
	}
	d, found, err := s.docs.Read(ctx, KindAnnotations, tenant)
	if err == nil && found {
		etag, err = d.ETag, decode(d, &body)
	}
	if err != nil {
		return "", body, fmt.Errorf("read annotations of %s: %w", tenant, err)
	}
	return etag, body, nil
}
