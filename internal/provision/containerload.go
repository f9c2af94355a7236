package provision

import (
	"context"
	"errors"
	"slices"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/heat"
	"binnacle/internal/store"
	"binnacle/sharding"
)

// Forecasts reads what is expected of the load; *heatlog.Reader is one.
type Forecasts interface {
	Forecast(ctx context.Context, now time.Time) (heat.Forecast, error)
}

// ContainerLoads computes the loads of containers from the heat that all processes write. It keeps what it has read,
// so that a round reads the last minutes alone. One goroutine at a time may use it.
type ContainerLoads struct {
	Ranges    Ranges
	Heat      Heat
	Forecasts Forecasts

	frames []heat.Frame
	until  int64 // ms, up to where frames are known; 0 for none
}

const (
	loadWindow = 26 * time.Hour
	// lateFrames is how long after its end a frame of minutes may still be written.
	lateFrames = 10 * time.Minute
	// indexed is the size of documents with their index over that of documents alone.
	indexed = 1.1
)

// Of returns the loads of existing containers; nil where the account keeps no heat.
func (l *ContainerLoads) Of(ctx context.Context, names []string, now time.Time) (map[string]Load, error) {
	at := now.UnixMilli() / heat.Minute * heat.Minute
	span := heat.Span{From: at - loadWindow.Milliseconds(), To: at, Step: heat.Minute}
	if err := l.read(ctx, span); errors.Is(err, store.ErrNoContainer) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	forecast, err := l.Forecasts.Forecast(ctx, now)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Load, len(names))
	for _, name := range names {
		ranges, err := l.Ranges.RangesOf(ctx, name)
		if errors.Is(err, store.ErrNoContainer) {
			continue
		}
		if err != nil {
			return nil, err
		}
		grid := heat.NewGrid(name, span, l.frames)
		load := Load{RUs: heat.Needed(grid, ranges), Partitions: heat.ByPartition(grid, ranges),
			Expected: expectedOf(forecast.OfContainer(name), grid, now), Most: len(ranges) * ru.PartitionRUs}
		added, err := l.before(ctx, name, span, load.RUs)
		if err != nil {
			return nil, err
		}
		if added {
			load.Partitions = nil // the container before may have had other partitions
		}
		out[name] = load.of(grid, l.known(span))
	}
	return out, nil
}

// OfTenant returns the load of a tenant in a container, by what Of has read.
func (l *ContainerLoads) OfTenant(tenant, container string, now time.Time) Load {
	at := now.UnixMilli() / heat.Minute * heat.Minute
	span := heat.Span{From: at - loadWindow.Milliseconds(), To: at, Step: heat.Minute}
	grid := heat.NewGrid(container, span, l.frames)
	grid.Rows = slices.DeleteFunc(grid.Rows, func(r heat.Row) bool { return r.Shard == "" || r.Tenant() != tenant })
	load := Load{RUs: make([]float64, grid.Columns)}
	for c := range load.RUs {
		for i := range grid.Rows {
			load.RUs[c] += grid.Rows[i].Amounts[c].Total()
		}
	}
	return load.of(grid, l.known(span))
}

// before adds what the container of the days before was asked for, by minute of a span, before the first day of the
// named one: a container's first hours are expected to be like the first hours of the day before. It reports whether
// there was such a container.
func (l *ContainerLoads) before(ctx context.Context, name string, span heat.Span, rus []float64) (bool, error) {
	owner, of, ok := sharding.ParseContainer(name)
	begin := of.Range().From
	if !ok || begin <= span.From {
		return false, nil
	}
	name = sharding.Container(owner, of.Period.Of(of.First-1))
	ranges, err := l.Ranges.RangesOf(ctx, name)
	if errors.Is(err, store.ErrNoContainer) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for c, x := range heat.Needed(heat.NewGrid(name, span, l.frames), ranges) {
		if span.From+int64(c)*span.Step < begin {
			rus[c] += x
		}
	}
	return true, nil
}

// read reads the frames of a span that are not known yet, and forgets those before it.
func (l *ContainerLoads) read(ctx context.Context, span heat.Span) error {
	from := max(span.From, l.until-lateFrames.Milliseconds())
	found, err := l.Heat.Frames(ctx, heat.Span{From: from, To: span.To, Step: span.Step})
	if err != nil {
		return err
	}
	if l.until > 0 { // an hour as a whole would count its minutes again
		found = slices.DeleteFunc(found, func(f heat.Frame) bool { return f.Layer != heat.Minutes })
	}
	kept := slices.DeleteFunc(l.frames, func(f heat.Frame) bool { return f.To > from || f.To <= span.From })
	l.frames, l.until = append(kept, found...), span.To
	return nil
}

// known returns for how many minutes at the end of a span processes have written heat: what is not in it was zero.
func (l *ContainerLoads) known(span heat.Span) int {
	first := span.To
	for _, f := range l.frames {
		first = min(first, f.From)
	}
	return int((span.To - max(first, span.From)) / heat.Minute)
}

// of returns l with RU by second and answers 429, of the last minutes of a grid.
func (l Load) of(grid heat.Grid, known int) Load {
	l.Throttled = make([]int64, grid.Columns)
	for c := range l.RUs {
		l.RUs[c] /= 60
		for i := range grid.Rows {
			l.Throttled[c] += grid.Rows[i].Amounts[c].Throttled
			l.Stored += indexed * float64(grid.Rows[i].Amounts[c].Bytes) / 1e9
		}
	}
	l.RUs, l.Throttled = tail(l.RUs, known), tail(l.Throttled, known)
	for p, minutes := range l.Partitions {
		for c := range minutes {
			minutes[c] /= 60
		}
		l.Partitions[p] = tail(minutes, known)
	}
	l.Stored *= day / float64(max(known, 1))
	return l
}

// expectedOf returns the mean RU/s by hour: of chunk writes as they are expected, and of all else as in the last hour.
// Keys are placed evenly enough for their sum to count.
func expectedOf(cells []heat.Expected, grid heat.Grid, now time.Time) []float64 {
	if len(cells) == 0 {
		return nil
	}
	others := 0.0
	for i := range grid.Rows {
		row := &grid.Rows[i]
		for c := max(0, grid.Columns-60); c < grid.Columns; c++ {
			others += row.Amounts[c].Total() - row.Amounts[c].RUs[heat.ChunkWrites]
		}
	}
	left := float64(heat.Hour-now.UnixMilli()%heat.Hour) / 1000
	out := make([]float64, heat.ForecastHours)
	for h := range out {
		seconds := 3600.0
		if h == 0 {
			seconds = max(60, left)
		}
		for i := range cells {
			out[h] += cells[i].RUs[h] / seconds
		}
		out[h] += others / 3600
	}
	return out
}
