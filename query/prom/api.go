// Package prom answers PromQL and serves the HTTP API of Prometheus: its engine, unchanged, over the readings of a
// tenant. docs/reference/promql.md has the names of series.
//
// It alone imports Prometheus. It reads through package query.
package prom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/tenant"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"
)

// Prefix is where the API begins; it is the URL of a data source.
const Prefix = "/prometheus"

// readPath is where a Prometheus reads.
const readPath = Prefix + "/api/v1/read"

// Config is what the API needs. Querier has no default. Its tags are package settings's.
type Config struct {
	Querier *query.Querier   `kong:"-"`
	Gate    *access.Gate     `kong:"-"` // nil: callers on this machine may name any tenant, all others are denied
	Now     func() time.Time `kong:"-"` // time.Now
	Logger  *slog.Logger     `kong:"-"` // none

	Lookback    time.Duration `name:"promql-lookback" help:"Lookback of PromQL: age up to which a sample counts as the current one. A tenant or a request can set another." default:"5m"`
	MaxSamples  int           `name:"promql-max-samples" help:"Most samples that a PromQL query holds at a time." default:"5000000"`
	MemoryBytes int64         `name:"promql-memory-mb" help:"Most memory of a PromQL query, in MiB: of what it reads, of what the engine may hold of series, labels and points, and of its answer." type:"mib" default:"256"`
}

// api answers requests. It is safe for any number of them.
type api struct {
	cfg    Config
	engine *promql.Engine
	parser parser.Parser
}

// New makes the handler of everything below Prefix; any other path there is a 404.
func New(cfg Config) (http.Handler, error) {
	settings.Defaults(&cfg)
	if cfg.Querier == nil {
		return nil, errors.New("prom: Querier is missing")
	}
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(1024), gzhttp.CompressionLevel(1))
	if err != nil {
		return nil, fmt.Errorf("prom: %w", err)
	}
	a := &api{cfg: cfg, parser: parser.NewParser(parser.Options{})}
	a.engine = promql.NewEngine(promql.EngineOpts{
		Logger: cfg.Logger, MaxSamples: cfg.MaxSamples, Timeout: cfg.Querier.Timeout(), LookbackDelta: cfg.Lookback,
		EnableAtModifier: true, EnableNegativeOffset: true, EnablePerStepStats: true, Parser: a.parser,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
	return compress(a.routes()), nil
}

func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	for path, e := range map[string]endpoint{
		"query": a.query, "query_range": a.queryRange, "labels": a.labels, "label/{name}/values": a.labelValues,
		"series": a.series, "metadata": a.metadata, "read": a.remoteRead,
		"format_query":    a.formatQuery,
		"query_exemplars": constant([]string{}), "rules": constant(map[string]any{"groups": []string{}}),
		"alerts":           constant(map[string]any{"alerts": []string{}}),
		"status/buildinfo": constant(map[string]string{"version": "3.15.0", "application": "binnacle"}),
	} {
		mux.HandleFunc(Prefix+"/api/v1/"+path, a.serve(e))
	}
	mux.HandleFunc("/", a.serve(func(_ context.Context, c *call) (answer, error) {
		return answer{}, &apiError{"not_found", http.StatusNotFound, fmt.Sprintf("no such endpoint: %.200s", c.URL.Path)}
	}))
	return mux
}

// call is a request of a tenant.
type call struct {
	*http.Request
	sent []byte // the body of a remote read
	*tenantStorage
}

// answer is the data of a response, and its warnings and statistics.
type answer struct {
	data     any
	kind     parser.ValueType // type of a query's result; "" for other endpoints
	result   [][]byte         // JSON of a query's result, in place of data
	stats    any
	warnings annotations.Annotations
	query    string // text that warnings point into
	protobuf []byte // the whole body instead, as snappy
}

type endpoint func(ctx context.Context, c *call) (answer, error)

// constant answers always the same.
func constant(data any) endpoint {
	return func(context.Context, *call) (answer, error) { return answer{data: data}, nil }
}

// maxFormBytes bounds the body of a POST.
const maxFormBytes = 4 << 20

// serve checks the method and the tenant, and answers with what an endpoint returns.
func (a *api) serve(e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := a.handle(w, r, e)
		if err == nil || r.Context().Err() != nil && errors.Is(err, context.Canceled) {
			return // answered, or the client has gone
		}
		shown := errorOf(err)
		httpapi.LogFailure(a.cfg.Logger.With("path", r.URL.Path), shown.status, err)
		if denied, ok := errors.AsType[*access.Denied](err); ok && denied.Challenge != "" {
			w.Header().Set("WWW-Authenticate", denied.Challenge)
		}
		if quota, ok := errors.AsType[*query.QuotaError](err); ok {
			w.Header().Set("Retry-After", strconv.Itoa(int(quota.RetryAfter.Seconds())))
		}
		w.Header().Set("Content-Type", "application/json")
		respond(w, shown.status, [][]byte{appendError(nil, shown)})
	}
}

func (a *api) handle(w http.ResponseWriter, r *http.Request, e endpoint) error {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, POST")
		return &apiError{badData, http.StatusMethodNotAllowed, "allowed are GET, and POST with a form"}
	}
	caller, err := a.cfg.Gate.Caller(r)
	if err != nil {
		return err
	}
	if !caller.May(tenant.ScopeRead) {
		return &access.Denied{Status: http.StatusForbidden, Detail: "this credential may not read", Header: "Authorization"}
	}
	if err := httpapi.CheckSuspended(a.cfg.Querier, caller.Tenant); err != nil {
		return err
	}
	if r, err = httpapi.After(r); err != nil {
		return badRequest("%v", err)
	}
	httpapi.LimitBodyTime(w, r)
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	if err := r.ParseForm(); err != nil {
		return badRequest("error parsing form values: %v", err)
	}
	if err := checkTexts(r.Form); err != nil {
		return err
	}
	asOf, err := a.asOf(r)
	if err != nil {
		return err
	}
	memory := a.cfg.Querier.Memory(a.cfg.MemoryBytes)
	defer memory.Close()
	// A request has its turn when all of it is there: others would wait for a client that sends a byte now and then.
	var sent []byte
	if r.URL.Path == readPath {
		if sent, err = io.ReadAll(r.Body); err != nil {
			return badRequest("the body can't be read: %v", err)
		}
	}
	c := &call{r, sent, &tenantStorage{
		querier: a.cfg.Querier, tenant: caller.Tenant, memory: memory, tags: a.cfg.Querier.Tags(caller.Tenant),
		pushdowns: make(pushdowns), asOf: asOf, memoryBytes: a.cfg.MemoryBytes, maxSamples: a.cfg.MaxSamples,
	}}
	kind, pieces := "application/json", [][]byte(nil)
	spent := &store.Meter{}
	ctx := httpapi.Charged(r, caller, cmp.Or(r.Form.Get("query"), r.Form.Get("match[]")))
	err = a.cfg.Querier.Admit(store.WithMeter(ctx, spent), caller.Tenant, func(ctx context.Context) error {
		out, err := e(ctx, c)
		switch {
		case err != nil:
		case out.protobuf != nil:
			pieces, kind = [][]byte{out.protobuf}, "application/x-protobuf"
			w.Header().Set("Content-Encoding", "snappy")
		default:
			pieces, err = encodeAnswer(out)
		}
		return err
	})
	w.Header().Set(query.SpentHeader, query.Spent(spent))
	if err != nil {
		return err
	}
	c.cost.RequestUnits = spent.Read().RUs // reads of the catalog count
	cost, err := httpapi.StatsJSON(c.cost)
	if err != nil {
		return fmt.Errorf("encode stats: %w", err)
	}
	w.Header().Set(httpapi.StatsHeader, string(cost))
	w.Header().Set(query.SourceHeader, query.Source(c.cost))
	w.Header().Set("Content-Type", kind)
	respond(w, http.StatusOK, pieces)
	return nil
}

// pieceBytes is how much of an answer a client must take within pieceTime.
const (
	pieceBytes = 64 << 10
	pieceTime  = 30 * time.Second
)

// respond writes an answer. A client that does not take it keeps its memory no longer than it must.
func respond(w http.ResponseWriter, status int, pieces [][]byte) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	connection := http.NewResponseController(w)
	for _, piece := range pieces {
		for part := range slices.Chunk(piece, pieceBytes) {
			// What can't have a deadline is no connection.
			_ = connection.SetWriteDeadline(time.Now().Add(pieceTime))
			if _, err := w.Write(part); err != nil {
				return // the client has gone; net/http notices that too
			}
		}
	}
}

// maxPoints is how many points of a series a range query may ask for.
const maxPoints = 11_000

var errTruncated = errors.New("results truncated due to limit")

func (a *api) query(ctx context.Context, c *call) (answer, error) {
	at, err := c.instant("time", a.cfg.Now())
	if err != nil {
		return answer{}, err
	}
	return a.evaluate(ctx, c, func(ctx context.Context, opts promql.QueryOpts, text string) (promql.Query, error) {
		return a.engine.NewInstantQuery(ctx, c.tenantStorage, opts, text, at)
	})
}

func (a *api) queryRange(ctx context.Context, c *call) (answer, error) {
	start, err := c.instant("start", time.Time{})
	if err != nil {
		return answer{}, err
	}
	end, err := c.instant("end", time.Time{})
	if err != nil {
		return answer{}, err
	}
	step, err := c.duration("step")
	switch {
	case err != nil:
		return answer{}, err
	case end.Before(start):
		return answer{}, badRequest("invalid parameter %q: end timestamp must not be before start time", "end")
	case step < time.Millisecond:
		return answer{}, badRequest("invalid parameter %q: it must be a positive duration of at least 1ms", "step")
	case end.Sub(start)/step > maxPoints:
		return answer{}, badRequest("exceeded maximum resolution of 11,000 points per timeseries. " +
			"Try decreasing the query resolution (?step=XX)")
	}
	return a.evaluate(ctx, c, func(ctx context.Context, opts promql.QueryOpts, text string) (promql.Query, error) {
		return a.engine.NewRangeQuery(ctx, c.tenantStorage, opts, text, start, end, step)
	})
}

// evaluate runs the query that open makes of the request's text.
func (a *api) evaluate(ctx context.Context, c *call,
	open func(context.Context, promql.QueryOpts, string) (promql.Query, error)) (answer, error) {
	limit, err := c.limit()
	if err != nil {
		return answer{}, err
	}
	timeout, err := c.duration("timeout")
	if err != nil {
		return answer{}, err
	}
	lookback, err := c.duration("lookback_delta")
	if err != nil {
		return answer{}, err
	}
	if known, ok := c.querier.Tenant(c.tenant); ok && lookback == 0 {
		lookback = known.Lookback
	}
	if c.Form.Get("timeout") != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	text, asked := c.Form.Get("query"), c.Form.Get("stats")
	begin := func() (promql.Query, error) {
		return open(ctx, promql.NewPrometheusQueryOpts(asked == "all", lookback), text)
	}
	q, err := begin()
	if err != nil {
		return answer{}, badRequest("invalid parameter %q: %v", "query", err)
	}
	var res *promql.Result
	if asked == "" {
		q = &rewrittenQuery{q, c.pushdowns, begin, c.bounded}
		res = q.Exec(ctx)
	} else { // statistics count the samples that the engine sees, so it must see them
		res = c.bounded(ctx, q)
	}
	defer q.Close()
	if res.Err != nil {
		return answer{}, engineError(c.timedOut(ctx, res.Err))
	}
	out := answer{warnings: res.Warnings, query: text}
	for _, hint := range c.hints {
		out.warnings.Add(errors.New(hint))
	}
	if limit > 0 && truncate(res, limit) {
		out.warnings.Add(errTruncated)
	}
	if asked != "" {
		out.stats = stats.NewQueryStats(q.Stats())
	}
	// The points go back to the engine with Close.
	body := pieces{memory: c.memory}
	if err := body.value(res.Value); err != nil {
		return answer{}, c.beyond(err)
	}
	out.result, out.kind = body.all(), res.Value.Type()
	return out, nil
}

// timedOut returns the error of an evaluation: of one that has taken too long with how the store fails, if it does.
func (c *call) timedOut(ctx context.Context, err error) error {
	failing := store.PersistenceOf(ctx).Failing()
	if late := promql.ErrQueryTimeout(""); errors.As(err, &late) && failing != nil {
		return &apiError{"timeout", http.StatusServiceUnavailable, late.Error() + query.FailureOf(failing)}
	}
	return err
}

// truncate keeps the first series of a result, and reports whether there are more.
func truncate(res *promql.Result, limit int) bool {
	n := 0
	switch v := res.Value.(type) {
	case promql.Vector:
		n, res.Value = len(v), v[:min(limit, len(v))]
	case promql.Matrix:
		n, res.Value = len(v), v[:min(limit, len(v))]
	}
	return n > limit
}

func (a *api) formatQuery(_ context.Context, c *call) (answer, error) {
	if n := len(c.Form.Get("query")); n > maxFormatBytes {
		return answer{}, badRequest("invalid parameter %q: it has %d bytes; at most %d are formatted", "query", n,
			maxFormatBytes)
	}
	expr, err := a.parser.ParseExpr(c.Form.Get("query"))
	if err != nil {
		return answer{}, badRequest("invalid parameter %q: %v", "query", err)
	}
	return answer{data: expr.Pretty(0)}, nil
}
