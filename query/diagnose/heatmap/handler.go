package heatmap

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
	"binnacle/sharding/epk"
)

// Source reads the load.
type Source interface {
	// Grid returns the heat of a container in a span.
	Grid(ctx context.Context, container string, span heat.Span) (heat.Grid, error)
	// Forecast returns the RU that are expected.
	Forecast(ctx context.Context, now time.Time) (heat.Forecast, error)
}

// Config is what a Handler needs. Marks may be nil.
type Config struct {
	Source Source
	// Ranges returns the physical partitions of a container as they are now.
	Ranges func(ctx context.Context, container string) ([]epk.Range, error)
	// Marks returns what else happened in a container: epochs that begin.
	Marks func(container string) []Mark
	// Shared returns the container that tenants share on a day.
	Shared func(day telemetry.Day) string
	Now    func() time.Time
}

// Handler answers requests for maps, of operators only: its listener turns others away. It is safe for any number of
// requests.
type Handler struct {
	cfg Config

	mu   sync.Mutex
	seen map[string]seenRanges // ranges of each container, guarded by mu
}

// seenRanges is the physical partitions that a process has seen last, and the splits between.
type seenRanges struct {
	ranges []epk.Range
	splits []Mark
}

// NewHandler returns a Handler.
func NewHandler(cfg Config) *Handler { return &Handler{cfg: cfg, seen: map[string]seenRanges{}} }

// Bounds of a map.
const (
	maxRows     = 1000
	defaultRows = 240
	maxColumns  = 1500
	mostColumns = 400 // columns at most where a request names no step
	maxSpan     = 400 * 24 * time.Hour
	maxAhead    = 12 * time.Hour
	defaultSpan = 6 * time.Hour
	maxSeen     = 100
)

var steps = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}

// Serve answers a request with a Map. Errors are a ParameterError, store.ErrNoContainer, and the source's.
func (h *Handler) Serve(r *http.Request) (status int, body any, err error) {
	in, err := h.read(r.Context(), r.URL.Query())
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, New(in), nil
}

// ParameterError says what is wrong with a parameter.
type ParameterError struct{ error }

func wrong(parameter, format string, args ...any) error {
	return ParameterError{fmt.Errorf("parameter "+parameter+": "+format, args...)}
}

// read reads the parameters and what they ask for.
func (h *Handler) read(ctx context.Context, q url.Values) (Input, error) {
	now := h.cfg.Now()
	in := Input{Kind: RUs, Now: now.UnixMilli(), Rows: defaultRows}
	for name, values := range q {
		if len(values) != 1 || !slices.Contains([]string{"container", "from", "to", "step", "kind", "rows"}, name) {
			return in, wrong(name, "is given twice, or none of container, from, to, step, kind and rows")
		}
	}
	container := q.Get("container")
	if container == "" {
		container = h.cfg.Shared(telemetry.DayOf(now.UnixMilli()))
	}
	if len(container) > 255 || strings.ContainsAny(container, `/\?#`) {
		return in, wrong("container", "is no name of a container")
	}
	if kind := q.Get("kind"); kind != "" {
		in.Kind = Kind(kind)
	}
	if !slices.Contains([]Kind{RUs, Bytes, Throttled}, in.Kind) {
		return in, wrong("kind", "%q is none of rus, bytes and throttled", in.Kind)
	}
	if text := q.Get("rows"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxRows {
			return in, wrong("rows", "%q is not a number from 1 to %d", text, maxRows)
		}
		in.Rows = n
	}
	span, err := spanOf(q, now)
	if err != nil {
		return in, err
	}
	if in.Ranges, err = h.cfg.Ranges(ctx, container); err != nil {
		return in, fmt.Errorf("read the physical partitions of %s: %w", container, err)
	}
	if in.Grid, err = h.cfg.Source.Grid(ctx, container, span); err != nil {
		return in, err
	}
	if in.Kind == RUs && span.To > in.Now {
		if in.Forecast, err = h.cfg.Source.Forecast(ctx, now); err != nil {
			return in, err
		}
	}
	marks := h.splits(container, in.Ranges, now)
	if h.cfg.Marks != nil {
		marks = append(marks, h.cfg.Marks(container)...)
	}
	for _, m := range marks {
		if m.At >= span.From && m.At < span.To {
			in.Marks = append(in.Marks, m)
		}
	}
	return in, nil
}

// spanOf reads from, to and step.
func spanOf(q url.Values, now time.Time) (heat.Span, error) {
	to := now
	from := time.Time{}
	var err error
	if text := q.Get("to"); text != "" {
		if to, err = instant("to", text, now); err != nil {
			return heat.Span{}, err
		}
	}
	if ahead := now.Add(maxAhead); to.After(ahead) {
		to = ahead
	}
	from = to.Add(-defaultSpan)
	if text := q.Get("from"); text != "" {
		if from, err = instant("from", text, now); err != nil {
			return heat.Span{}, err
		}
	}
	if !from.Before(to) {
		return heat.Span{}, wrong("from", "is not before to")
	}
	if to.Sub(from) > maxSpan {
		return heat.Span{}, wrong("from", "is more than %d days before to", int(maxSpan.Hours()/24))
	}
	step := steps[len(steps)-1]
	for _, s := range slices.Backward(steps) {
		if to.Sub(from)/s <= mostColumns {
			step = s
		}
	}
	if text := q.Get("step"); text != "" {
		if step, err = time.ParseDuration(text); err != nil || !slices.Contains(steps, step) {
			return heat.Span{}, wrong("step", "%q is none of 1m, 5m, 15m, 1h, 6h and 24h", text)
		}
		if to.Sub(from)/step > maxColumns {
			return heat.Span{}, wrong("step", "there are more than %d steps between from and to", maxColumns)
		}
	}
	ms := step.Milliseconds()
	first := from.UnixMilli() / ms * ms
	return heat.Span{From: first, To: max(first+ms, (to.UnixMilli()+ms-1)/ms*ms), Step: ms}, nil
}

// instant reads a time as the API for tenants does.
func instant(name, text string, now time.Time) (time.Time, error) {
	ms, err := duration.ParseInstant(text, now)
	if err != nil {
		return time.Time{}, wrong(name, "%.40q is no time such as 2026-11-23T04:00:00Z, -6h or 1795406400000", text)
	}
	return time.UnixMilli(ms), nil
}

// splits remembers the physical partitions of a container and returns the splits that were seen so far.
func (h *Handler) splits(container string, ranges []epk.Range, now time.Time) []Mark {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.seen[container]
	if len(h.seen) >= maxSeen && !ok {
		return nil
	}
	if ok && len(ranges) > len(known.ranges) {
		known.splits = append(known.splits, Mark{At: now.UnixMilli(), Kind: "split",
			Text: fmt.Sprintf("%d physical partitions became %d", len(known.ranges), len(ranges))})
	}
	known.ranges = ranges
	h.seen[container] = known
	return slices.Clone(known.splits)
}
