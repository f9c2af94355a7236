package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"binnacle/internal/tenant"
	"binnacle/internal/tenant/access"
	"binnacle/internal/wire/jsonbody"
	"binnacle/query"

	"golang.org/x/time/rate"
)

var annotationsParameters = []string{"id", "from", "to", "tag"}

// maxAnnotationBody is how long the body of an annotation may be, with every character escaped.
const maxAnnotationBody = 16 << 10

// callerKey is the context key of the access.Caller of a request.
type callerKey struct{}

// annotationError is why a request that is well formed can't be done.
type annotationError struct {
	status int
	detail string
}

func (r *annotationError) Error() string { return r.detail }

// annotations lists, adds and removes annotations of a tenant.
func (a *api) annotations(w *response, r *http.Request, tenant string) error {
	if r.Method != http.MethodPost && r.Method != http.MethodDelete {
		return a.listAnnotations(w, r, tenant)
	}
	if isUnsent(r.Context()) {
		return &parameterError{ExplainParameter, "is for requests that change nothing"}
	}
	if _, known := a.cfg.Querier.Tenant(tenant); !known {
		return &annotationError{http.StatusUnprocessableEntity,
			fmt.Sprintf("tenant %s is not registered: its first reading registers it", tenant)}
	}
	if err := a.changes.take(tenant, a.cfg.Now()); err != nil {
		return err
	}
	if r.Method == http.MethodDelete {
		return a.removeAnnotations(w, r, tenant)
	}
	return a.addAnnotation(w, r, tenant)
}

// The most changes of annotations of a tenant in a minute, by one querier: at once, or evenly.
const annotationChanges = 60

// changeLimits holds tenants to how often they change annotations. It is safe for any number of callers.
type changeLimits struct {
	mu      sync.Mutex
	tenants map[string]*rate.Limiter // registered tenants; guarded by mu
}

// take returns an error if a tenant has made as many changes as it may.
func (l *changeLimits) take(tenant string, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tenants == nil {
		l.tenants = map[string]*rate.Limiter{}
	}
	if l.tenants[tenant] == nil {
		l.tenants[tenant] = rate.NewLimiter(rate.Every(time.Minute/annotationChanges), annotationChanges)
	}
	if l.tenants[tenant].AllowN(now, 1) {
		return nil
	}
	return &query.QuotaError{Limit: fmt.Sprintf("its %d changes of annotations a minute", annotationChanges),
		RetryAfter: time.Second, Narrow: []string{"remove several by one request, by tag or time"}}
}

// annotationMatcher returns whether the parameters of a request are about an annotation: all of them where there are
// none.
func (a *api) annotationMatcher(p *params) func(tenant.Annotation) bool {
	now := a.cfg.Now()
	from, to := p.instant("from", now, 0), p.instant("to", now, math.MaxInt64)
	p.checkOrder(from, to)
	ids, tags := p.names("id"), p.names("tag")
	return func(x tenant.Annotation) bool {
		lacks := func(tag string) bool { return !slices.Contains(x.Tags, tag) }
		return x.Last() >= from && x.Time < to && (len(ids) == 0 || slices.Contains(ids, x.ID)) &&
			!slices.ContainsFunc(tags, lacks)
	}
}

func (a *api) listAnnotations(w *response, r *http.Request, name string) error {
	p := parse(r, annotationsParameters, "id", "tag")
	matches := a.annotationMatcher(p)
	if done, err := w.beginJSON(p); done {
		return err
	}
	var found []tenant.Annotation
	err := a.changeAnnotations(r.Context(), name, func(ctx context.Context) (err error) {
		found, err = a.cfg.Annotations.List(ctx, name)
		return err
	})
	if err != nil {
		return err
	}
	caller, _ := r.Context().Value(callerKey{}).(access.Caller)
	found = slices.DeleteFunc(found, func(x tenant.Annotation) bool { return !matches(x) })
	w.showSpent() // all is read, and a browser sees no trailers
	return encode(w, struct {
		Annotations []tenant.Annotation `json:"annotations"`
		MayWrite    bool                `json:"may_write"`
	}{orEmpty(found), mayWrite(caller)})
}

func (a *api) addAnnotation(w *response, r *http.Request, tenant string) error {
	if r.URL.RawQuery != "" {
		return &parameterError{"query", "an annotation is in the body, as JSON; the URL has no parameters"}
	}
	added, err := readAnnotation(r)
	if err != nil {
		return err
	}
	now, caller := a.cfg.Now(), r.Context().Value(callerKey{}).(access.Caller)
	added.Made, added.By = now.UnixMilli(), caller.Name
	if added.Time == 0 {
		added.Time = added.Made
	}
	if member, err := added.Check(); err != nil {
		return &parameterError{member, err.Error()}
	}
	added.Text, added.Tags = strings.TrimSpace(added.Text), orEmpty(added.Tags)
	var before int64
	if t, _ := a.cfg.Querier.Tenant(tenant); t.Retention > 0 {
		before = now.Add(-t.Retention).UnixMilli()
	}
	w.begin("application/json")
	err = a.changeAnnotations(r.Context(), tenant, func(ctx context.Context) (err error) {
		added, err = a.cfg.Annotations.Add(ctx, tenant, added, before)
		return err
	})
	if err != nil {
		return err
	}
	a.cfg.Logger.Info("annotation added", "tenant", tenant, "by", added.By, "id", added.ID)
	return encode(w, added)
}

// readAnnotation returns the annotation of a request's body: what a client may say of it.
func readAnnotation(r *http.Request) (out tenant.Annotation, err error) {
	const kind = "application/json"
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != kind {
		return out, &parameterError{"Content-Type", fmt.Sprintf("%.100q; an annotation is %s", r.Header.Get("Content-Type"),
			kind)}
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxAnnotationBody+1))
	if err != nil || len(text) > maxAnnotationBody {
		return out, &parameterError{"body", fmt.Sprintf("can't be read, or has more than %d bytes", maxAnnotationBody)}
	}
	var body struct {
		Time int64    `json:"time"`
		End  int64    `json:"timeEnd"`
		Text string   `json:"text"`
		Tags []string `json:"tags"`
	}
	if err = jsonbody.Read(bytes.NewReader(text), &body); err != nil {
		return out, &parameterError{"body", fmt.Sprintf(`%.200v; allowed is an object like `+
			`{"time":1795168800000,"timeEnd":1795168860000,"text":"deploy 7.2","tags":["deploy"]}`, err)}
	}
	return tenant.Annotation{Time: body.Time, End: body.End, Text: body.Text, Tags: body.Tags}, nil
}

func (a *api) removeAnnotations(w *response, r *http.Request, tenant string) error {
	p := parse(r, annotationsParameters, "id", "tag")
	matches := a.annotationMatcher(p)
	if len(p.values) == 0 {
		p.fail("id", "is missing; a DELETE names what to remove by id, tag, from or to")
	}
	if p.err != nil {
		return p.err
	}
	w.begin("application/json")
	var removed int
	err := a.changeAnnotations(r.Context(), tenant, func(ctx context.Context) (err error) {
		removed, err = a.cfg.Annotations.Remove(ctx, tenant, matches)
		return err
	})
	if err != nil {
		return err
	}
	caller := r.Context().Value(callerKey{}).(access.Caller)
	a.cfg.Logger.Info("annotations removed", "tenant", tenant, "by", caller.Name, "annotations", removed)
	return encode(w, map[string]int{"removed": removed})
}

// changeAnnotations reads or changes annotations of a tenant within the limits of its queries.
func (a *api) changeAnnotations(ctx context.Context, name string, do func(context.Context) error) error {
	return a.admit(ctx, name, func(ctx context.Context) error {
		err := do(ctx)
		switch {
		case errors.Is(err, tenant.ErrTooManyAnnotations):
			return &annotationError{http.StatusUnprocessableEntity, fmt.Sprintf("%s, %d: remove some, by id, tag or time",
				tenant.ErrTooManyAnnotations, tenant.MaxAnnotations)}
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("%w: %w", query.ErrUnavailable, err)
		}
		return err
	})
}
