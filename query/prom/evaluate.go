package prom

import (
	"context"
	"errors"
	"net/http"
	"time"

	"binnacle/internal/store"
	"binnacle/query"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/stats"
)

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
		q = &rewrittenQuery{q, c.pushdowns, begin, &answers{tenantStorage: c.tenantStorage, text: text}}
		res = q.Exec(ctx)
	} else { // statistics count the samples that the engine sees, so it must see them
		res = c.bounded(ctx, q, nil)
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
