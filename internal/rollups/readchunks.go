package rollups

import (
	"context"
	"maps"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/binning/rollup"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// markLate marks devices to be read raw that have rows in built hours which the manifest's asOf does not cover. A chunk
// without rows marks nothing: an order of erasure clears rollups that show what it had (rule E-R10).
func (r *round) markLate(ctx context.Context) error {
	covered := r.old.MinuteHours()
	if covered == 0 || r.asOf == r.old.AsOf {
		return nil
	}
	scan := store.Scan{Key: r.prefix(), Before: r.asOf}
	for from, to := range runs(covered) {
		scan.Windows = append(scan.Windows, store.Window{Range: rollup.Range(r.Day, from, to), Since: r.old.AsOf})
	}
	late := make(map[string]bool)
	err := r.scan(ctx, scan, func(doc []byte) error {
		c, err := chunk.ParseColumns(doc, []string{})
		if err != nil {
			return err
		}
		hours := rollup.HoursOf(r.Day, c.Header.From, c.Header.To) & covered
		if !c.Header.IsErased() && hours != 0 && !r.severalKeys(c.Header.Device) {
			r.manifest.MarkRaw(c.Header.Device, hours)
			late[c.Header.Device] = true
		}
		return nil
	})
	r.LateDevices = len(late)
	return err
}

func (r *round) prefix() sharding.Key {
	return sharding.Key{Container: r.Chunks, TenantShard: r.TenantShard}
}

// scan reads chunks, at the pace that the writer may.
func (r *round) scan(ctx context.Context, s store.Scan, yield func(doc []byte) error) error {
	s.Charge = func(rus float64) error {
		r.ReadRUs += rus
		return r.pacer.Wait(ctx, rus)
	}
	usage, err := r.cfg.Chunks.Scan(ctx, s, yield)
	r.Read += usage.Documents
	return err
}

// chunkSet is the chunks of a range, by device, or no more than what they are.
type chunkSet struct {
	round     *round
	from      int
	to        int
	bytes     int64
	sizesOnly bool // memory was short: sizes are all that is known
	chunks    map[string][]*chunk.Chunk
	sizes     map[string]int64
	metrics   map[string]bool
	until     [rollup.HoursOfDay]int64
}

// readChunks reads the chunks of hours that the manifest is going to show: those with a lower _ts than asOf.
func (r *round) readChunks(ctx context.Context, from, to int) (*chunkSet, error) {
	g := newChunkSet(r, from, to)
	err := r.scan(ctx, store.Scan{Key: r.prefix(), Range: rollup.Range(r.Day, from, to), Before: r.asOf},
		func(doc []byte) error {
			c, err := chunk.Parse(doc)
			if err != nil {
				return err
			}
			g.add(c)
			return nil
		})
	return g, err
}

func newChunkSet(r *round, from, to int) *chunkSet {
	return &chunkSet{round: r, from: from, to: to, chunks: make(map[string][]*chunk.Chunk),
		sizes: make(map[string]int64), metrics: make(map[string]bool)}
}

func (g *chunkSet) add(c *chunk.Chunk) {
	device := c.Header.Device
	if c.Header.ID.Day != g.round.Day || g.round.severalKeys(device) {
		return
	}
	if c.Header.TTL > 0 {
		from, to := rollup.HoursOf(g.round.Day, c.Header.From, c.Header.To).Bounds()
		for hour := from; hour < to; hour++ {
			g.until[hour] = earlier(g.until[hour], c.Stored()+int64(c.Header.TTL))
		}
	}
	for _, col := range c.Columns() {
		if col.Kind != telemetry.Text {
			g.metrics[col.Metric] = true
		}
	}
	g.sizes[device] += int64(c.Bytes())
	if g.bytes += int64(c.Bytes()); g.bytes > g.round.cfg.MaxBytes {
		g.sizesOnly, g.chunks = true, nil
	}
	if !g.sizesOnly {
		g.chunks[device] = append(g.chunks[device], c)
	}
}

// Bounds of a part: a document has a row for each of its series, and one scan names as many devices at most.
const (
	partDevices = store.MaxScanDevices
	partSeries  = 1024
	maxSeries   = 2 * partSeries // series in a part with one device
)

// widestPart returns how many series a part has at most that is not the only one.
func (g *chunkSet) widestPart() int {
	if g.sizesOnly {
		return maxSeries
	}
	all, most := 0, 0
	for device, chunks := range g.chunks {
		n := len(seriesOf(device, chunks))
		all, most = all+n, max(most, min(n, maxSeries))
	}
	if all <= partSeries && len(g.sizes) <= partDevices {
		return 0
	}
	return max(most, min(all, partSeries))
}

// parts calls yield with the devices and chunks of one part after another, devices in order. Where memory was
// short they are read again, as many at a time as there is room for.
func (g *chunkSet) parts(ctx context.Context,
	yield func(devices []string, chunks map[string][]*chunk.Chunk) error) error {
	var devices []string
	var bytes int64
	flush := func() error {
		if len(devices) == 0 {
			return nil
		}
		defer func() { devices, bytes = nil, 0 }()
		chunks := g.chunks
		if g.sizesOnly {
			var err error
			if chunks, err = g.readAgain(ctx, devices); err != nil {
				return err
			}
		}
		return bySeries(devices, chunks, yield)
	}
	for _, device := range slices.Sorted(maps.Keys(g.sizes)) {
		if len(devices) == partDevices || len(devices) > 0 && bytes+g.sizes[device] > g.round.cfg.MaxBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		devices, bytes = append(devices, device), bytes+g.sizes[device]
	}
	return flush()
}

func (g *chunkSet) readAgain(ctx context.Context, devices []string) (map[string][]*chunk.Chunk, error) {
	chunks := make(map[string][]*chunk.Chunk)
	err := g.round.scan(ctx, store.Scan{Key: g.round.prefix(), Devices: devices,
		Range: rollup.Range(g.round.Day, g.from, g.to), Before: g.round.asOf},
		func(doc []byte) error {
			c, err := chunk.Parse(doc)
			if err == nil {
				chunks[c.Header.Device] = append(chunks[c.Header.Device], c)
			}
			return err
		})
	return chunks, err
}

// bySeries calls yield with runs of devices that have no more series than a part may.
func bySeries(devices []string, chunks map[string][]*chunk.Chunk,
	yield func([]string, map[string][]*chunk.Chunk) error) error {
	first, series := 0, 0
	for i, device := range devices {
		n := len(seriesOf(device, chunks[device]))
		if i > first && series+n > partSeries {
			if err := yield(devices[first:i], chunks); err != nil {
				return err
			}
			first, series = i, 0
		}
		series += n
	}
	return yield(devices[first:], chunks)
}

// seriesOf returns a device's label sets that have numbers, in order.
func seriesOf(device string, chunks []*chunk.Chunk) (out []rollup.Series) {
	for _, c := range chunks {
		for _, col := range c.Columns() {
			s := rollup.Series{Device: device, Labels: col.Labels}
			if n := len(out); col.Kind != telemetry.Text && (n == 0 || out[n-1].Compare(s) != 0) {
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, rollup.Series.Compare)
	return slices.CompactFunc(out, func(a, b rollup.Series) bool { return a.Compare(b) == 0 })
}

// samplesOf returns the samples in a device's chunks of some metrics: for each instant the newest source's.
func samplesOf(chunks []*chunk.Chunk, metrics []string) ([]rollup.Samples, error) {
	slices.SortFunc(chunks, func(a, b *chunk.Chunk) int { return source(a).Compare(source(b)) })
	frames := make([]chunk.Frame, len(chunks))
	for i, c := range chunks {
		var err error
		if frames[i], err = c.Frame(metrics); err != nil {
			return nil, err
		}
	}
	return rollup.Merge(frames, nil), nil
}

func source(c *chunk.Chunk) store.Source {
	return store.Source{Stream: c.Header.ID.Stream, Partition: c.Header.ID.Partition, Through: c.Header.Through}
}
