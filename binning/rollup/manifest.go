package rollup

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"binnacle/internal/telemetry"
)

// Manifest says which rollups of a first-level key and day count, and for what (rule V1). Rollups that no manifest
// names do not count. It is replaced under its ETag, and that is the only commit.
type Manifest struct {
	TenantShard string
	Day         telemetry.Day

	// AsOf is a second since 1970 UTC, by the service's clock. Rollups show all chunks with a lower _ts, except
	// chunks of devices that are read raw.
	AsOf int64
	// Batches are in the order in which they were made. For a grid, an hour and a device the last batch counts that
	// has them: a correction has the devices of its own series index, any other batch has all.
	Batches []Batch
	// Raw is, by device, the hours in which rollups do not show what its chunks hold. A device that is here is read
	// from its chunks for the whole range of an answer.
	Raw map[string]Hours
	// Until is the second since 1970 UTC at which the first chunk that an hour's rollups show expires, 0 for never: from
	// then on the hour is read raw (rule V6).
	Until [HoursOfDay]int64

	Written int64 // how often it was replaced: equal manifests of two moments would have one name
	TTL     int64 // seconds from the write until the service removes it, 0 for never
}

// Batch is rollups that were made at once.
type Batch struct {
	Name       string
	Grids      []Grid
	From, To   int // hours, from one up to and without the other
	Correction bool
	// Devices are the devices of a correction, sorted. The correction's one document is under CorrectionsKey, with
	// its own series index. A series of these devices that the document lacks has no samples in the correction's
	// hours.
	Devices []string
	// Parts is how many series indexes a batch has that is no correction, and the most documents that a rollup of an
	// hour has. Metrics are the rollups that exist, sorted; a metric in neither Metrics nor Without has no samples.
	Parts   int
	Size    int // devices of a batch that is no correction
	Metrics []Metric
	// Without are metrics that have samples but no rollups, sorted: they are read raw.
	Without []string
}

// Metric is the rollups of one metric in a batch.
type Metric struct {
	Name string
	// Families stand in the order of AllFamilies.
	Families Families
	// Every has, for each family, how many hours a document of the minute grid covers.
	Every []int
	// Parts are the parts of the batch that have series of the metric, ascending; nil: all.
	Parts []int
}

// MinuteHours returns the hours that rollups of minutes show.
func (l *Manifest) MinuteHours() (h Hours) { return l.CoveredHours(Minute) }

// CoveredHours returns the hours that rollups of a grid show.
func (l *Manifest) CoveredHours(g Grid) (h Hours) {
	for i := range l.Batches {
		if b := &l.Batches[i]; !b.Correction && slices.Contains(b.Grids, g) {
			h |= Span(b.From, b.To)
		}
	}
	return h
}

// Metric returns the rollups of a metric, nil without any: then Lacks reports whether chunks have to be read instead.
func (b *Batch) Metric(name string) *Metric {
	i, found := slices.BinarySearchFunc(b.Metrics, name, func(m Metric, name string) int {
		return strings.Compare(m.Name, name)
	})
	if !found {
		return nil
	}
	return &b.Metrics[i]
}

// Omits reports whether a metric has samples in the batch's chunks that no rollup shows.
func (b *Batch) Omits(metric string) bool {
	_, found := slices.BinarySearch(b.Without, metric)
	return found
}

// Ref names a document, in the container of its manifest and under the same first-level key.
type Ref struct {
	Key, ID  string
	Part     int
	From, To int // hours
}

// Documents returns the documents of a rollup that have any of the hours, for a batch that is no correction; none if
// the batch has no such rollup.
func (b *Batch) Documents(day telemetry.Day, metric string, f Family, g Grid, hours Hours) (out []Ref) {
	m := b.Metric(metric)
	if m == nil || b.Correction || !slices.Contains(b.Grids, g) {
		return nil
	}
	at := slices.Index(m.Families, f)
	if at < 0 {
		return nil
	}
	every := b.To - b.From
	if g == Minute {
		every = m.Every[at]
	}
	key := Key(metric, f, g)
	for hour := b.From; hour < b.To; hour += every {
		to := min(hour+every, b.To)
		if Span(hour, to)&hours == 0 {
			continue
		}
		for part := range b.Parts {
			if m.Parts == nil || slices.Contains(m.Parts, part) {
				out = append(out, Ref{key, ID(key, day, hour, part, b.Name), part, hour, to})
			}
		}
	}
	return out
}

// SeriesIndexes returns the documents that name the series of the batch's parts.
func (b *Batch) SeriesIndexes(day telemetry.Day) (out []Ref) {
	if b.Correction {
		return nil
	}
	for part := range b.Parts {
		out = append(out, Ref{SeriesIndexKey, ID(SeriesIndexKey, day, b.From, part, b.Name), part, b.From, b.To})
	}
	return out
}

// CorrectionDocument returns the document of a correction.
func (b *Batch) CorrectionDocument(day telemetry.Day) Ref {
	return Ref{CorrectionsKey, ID(CorrectionsKey, day, b.From, 0, b.Name), 0, b.From, b.To}
}

// Clone returns a copy that shares nothing that is changed.
func (l *Manifest) Clone() *Manifest {
	c := *l
	c.Batches = slices.Clone(l.Batches)
	c.Raw = maps.Clone(l.Raw)
	return &c
}

// MarkRaw marks a device as read raw in some hours.
func (l *Manifest) MarkRaw(device string, hours Hours) {
	if l.Raw == nil {
		l.Raw = make(map[string]Hours)
	}
	l.Raw[device] |= hours
}

// ClearRaw notes that rollups show what the chunks of a device hold in some hours.
func (l *Manifest) ClearRaw(device string, hours Hours) {
	if l.Raw[device] &^= hours; l.Raw[device] == 0 {
		delete(l.Raw, device)
	}
}

// manifestDocument is a Manifest as it is stored.
type manifestDocument struct {
	ID          string           `json:"id"`
	Version     int              `json:"v"`
	Type        string           `json:"type"`
	TenantShard string           `json:"tenantShard"`
	Key         string           `json:"rollup"`
	From        int64            `json:"from"`
	To          int64            `json:"to"`
	Day         string           `json:"day"`
	AsOf        int64            `json:"asOf"`
	Batches     []batchDocument  `json:"batches"`
	Raw         map[string]Hours `json:"raw,omitempty"`
	Until       []int64          `json:"until,omitempty"`
	Written     int64            `json:"written"`
	TTL         int64            `json:"ttl,omitempty"`
}

type batchDocument struct {
	Name       string           `json:"name"`
	Grids      []Grid           `json:"grids"`
	Hours      [2]int           `json:"hours"`
	Correction bool             `json:"correction,omitempty"`
	Devices    []string         `json:"devices,omitempty"`
	Parts      int              `json:"parts,omitempty"`
	Size       int              `json:"size,omitempty"`
	Metrics    []metricDocument `json:"metrics,omitempty"`
	Without    []string         `json:"without,omitempty"`
}

type metricDocument struct {
	Name     string `json:"metric"`
	Families string `json:"families"`
	Every    []int  `json:"every"`
	Parts    []int  `json:"parts,omitempty"`
}

// Encode returns the manifest's document.
func (l *Manifest) Encode() ([]byte, error) {
	d := manifestDocument{
		ID: ManifestID(l.Day), Version: Version, Type: "manifest", TenantShard: l.TenantShard, Key: ManifestKey,
		From: l.Day.Start(), To: l.Day.End(), Day: l.Day.String(), AsOf: l.AsOf, Raw: l.Raw, Written: l.Written, TTL: l.TTL,
		Batches: []batchDocument{},
	}
	if l.Until != [HoursOfDay]int64{} {
		d.Until = l.Until[:]
	}
	for i := range l.Batches {
		b := &l.Batches[i]
		x := batchDocument{Name: b.Name, Grids: b.Grids, Hours: [2]int{b.From, b.To}, Correction: b.Correction,
			Devices: b.Devices, Parts: b.Parts, Size: b.Size, Without: b.Without}
		for _, m := range b.Metrics {
			x.Metrics = append(x.Metrics, metricDocument{m.Name, m.Families.String(), m.Every, m.Parts})
		}
		d.Batches = append(d.Batches, x)
	}
	doc, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("manifest of %s, %s: %w", l.TenantShard, l.Day, err)
	}
	if len(doc) > MaxDocument {
		return nil, fmt.Errorf("manifest of %s, %s: %w", l.TenantShard, l.Day, ErrTooLarge)
	}
	return doc, nil
}

// ParseManifest reads a manifest. What is none gives ErrCorrupt. It keeps nothing of doc.
func ParseManifest(doc []byte) (*Manifest, error) {
	var d manifestDocument
	if len(doc) > MaxDocument+4<<10 {
		return nil, corrupt("a manifest of %d bytes", len(doc))
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, corrupt("%v", err)
	}
	day, err := telemetry.ParseDay(d.Day)
	if err != nil {
		return nil, corrupt("%v", err)
	}
	if d.Type != "manifest" || d.Version != Version || d.Key != ManifestKey || d.ID != ManifestID(day) {
		return nil, corrupt("%.60q of type %.20q, version %d, is no manifest of %s", d.ID, d.Type, d.Version, day)
	}
	l := &Manifest{TenantShard: d.TenantShard, Day: day, AsOf: d.AsOf, Raw: d.Raw, Written: d.Written, TTL: d.TTL}
	if n := len(d.Until); n != 0 && n != HoursOfDay {
		return nil, corrupt("until of %d hours", n)
	}
	copy(l.Until[:], d.Until)
	for device, hours := range l.Raw {
		if hours == 0 || hours&^AllDay != 0 {
			return nil, corrupt("hours %x of device %.200q", hours, device)
		}
	}
	for i := range d.Batches {
		b, err := d.Batches[i].batch()
		if err != nil {
			return nil, err
		}
		l.Batches = append(l.Batches, b)
	}
	return l, nil
}

func (d *batchDocument) batch() (Batch, error) {
	b := Batch{Name: d.Name, Grids: d.Grids, From: d.Hours[0], To: d.Hours[1], Correction: d.Correction,
		Devices: d.Devices, Parts: d.Parts, Size: d.Size, Without: d.Without}
	if err := CheckBatch(b.Name); err != nil {
		return b, err
	}
	for _, g := range b.Grids {
		if g != Minute && g != HalfHour {
			return b, corrupt("a grid of %d ms", g)
		}
	}
	if b.From < 0 || b.From >= b.To || b.To > HoursOfDay || b.Parts < 0 || b.Parts > MaxSeries ||
		!ascending(b.Devices, strings.Compare) || !ascending(b.Without, strings.Compare) {
		return b, corrupt("batch %s of hours %d to %d, %d parts", b.Name, b.From, b.To, b.Parts)
	}
	for _, m := range d.Metrics {
		f, err := ParseFamilies(m.Families)
		if err != nil {
			return b, err
		}
		b.Metrics = append(b.Metrics, Metric{m.Name, f, m.Every, m.Parts})
		if len(m.Every) != len(f) || slices.ContainsFunc(m.Every, func(n int) bool { return n < 1 || n > HoursOfDay }) {
			return b, corrupt("hours %v of documents of metric %.200q", m.Every, m.Name)
		}
	}
	if !ascending(b.Metrics, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) }) {
		return b, corrupt("metrics out of order in batch %s", b.Name)
	}
	return b, nil
}

func ascending[T any](v []T, compare func(a, b T) int) bool {
	for i := 1; i < len(v); i++ {
		if compare(v[i-1], v[i]) >= 0 {
			return false
		}
	}
	return true
}

// Omits reports whether no batch that has any of the hours, and is no correction, shows a metric. A metric that some
// hours alone lack is shown in the others.
func (l *Manifest) Omits(metric string, hours Hours) bool {
	lacks := false
	for i := range l.Batches {
		if b := &l.Batches[i]; !b.Correction && Span(b.From, b.To)&hours != 0 {
			if !b.Omits(metric) {
				return false
			}
			lacks = true
		}
	}
	return lacks
}

// Prune takes out the batches that no longer count, and returns them: later batches that are no corrections cover all
// their hours on all their grids.
func (l *Manifest) Prune() (gone []Batch) {
	covered := make(map[Grid]Hours)
	var kept []Batch
	for i := len(l.Batches) - 1; i >= 0; i-- {
		b := l.Batches[i]
		hours := Span(b.From, b.To)
		counts := slices.ContainsFunc(b.Grids, func(g Grid) bool { return hours&^covered[g] != 0 })
		if !counts {
			gone = append(gone, b)
			continue
		}
		kept = append(kept, b)
		if !b.Correction {
			for _, g := range b.Grids {
				covered[g] |= hours
			}
		}
	}
	slices.Reverse(kept)
	l.Batches = kept
	return gone
}
