package heat

import (
	"encoding/json"
	"fmt"
	"slices"
)

// ForecastHours is how many hours a forecast covers: the rest of the hour that it was made in, and twelve more.
const ForecastHours = 13

// Expected is the RU that are expected of a key by hour. Hour 0 is the clock hour that the forecast was made in, from
// then on.
type Expected struct {
	Key
	RUs [ForecastHours]float64
}

// Forecast is the RU that a process, or with an empty Writer all, expect to take by writing chunks.
type Forecast struct {
	// At is when the forecast was made, ms.
	At     int64
	Writer string
	Cells  []Expected
	Folded int // keys that lie in cells without a name
}

// Start returns the begin of the forecast's hour h.
func (f *Forecast) Start(h int) int64 { return f.At - f.At%Hour + int64(h)*Hour }

type forecastDocument struct {
	V      int    `json:"v"`
	Type   string `json:"type"`
	From   int64  `json:"from"`
	Writer string `json:"writer,omitempty"`
	Folded int    `json:"folded,omitempty"`
	Cells  int    `json:"cells"`
	Data   string `json:"data"`
}

const forecastType = "forecast"

// Encode returns the document, of the heaviest keys by name so that it has at most TargetBytes.
func (f Forecast) Encode() ([]byte, error) {
	for most := len(f.Cells); ; most = most * 3 / 4 {
		kept, folded := foldExpected(f.Cells, most)
		c := newColumns()
		c.expected(kept)
		doc, err := json.Marshal(forecastDocument{Version, forecastType, f.At, f.Writer, f.Folded + folded, len(kept),
			c.packed()})
		if err != nil || len(doc) <= TargetBytes || most == 0 {
			return doc, err
		}
	}
}

// foldExpected returns at most most cells with names; the others of a slot are one cell without.
func foldExpected(cells []Expected, most int) (kept []Expected, folded int) {
	sums := make([]Cell, len(cells))
	byKey := make(map[Key][]Expected, len(cells))
	for i, e := range cells {
		sums[i].Key, byKey[e.Key] = e.Key, append(byKey[e.Key], e)
		for _, r := range e.RUs {
			sums[i].RUs[ChunkWrites] += r
		}
	}
	sums, folded = Fold(sums, most)
	named := make(map[Key]int, len(sums))
	for _, s := range sums {
		named[s.Key] = len(kept)
		kept = append(kept, Expected{Key: s.Key})
	}
	for key, all := range byKey {
		i, ok := named[key]
		if !ok {
			i = named[key.Rest()]
		}
		for _, e := range all {
			kept[i].add(&e)
		}
	}
	return kept, folded
}

func (e *Expected) add(o *Expected) {
	for h, r := range o.RUs {
		e.RUs[h] += r
	}
}

func (c *columns) expected(cells []Expected) {
	keys := make([]Cell, len(cells))
	slices.SortFunc(cells, func(a, b Expected) int { return a.Compare(b.Key) })
	for i, e := range cells {
		keys[i].Key = e.Key
	}
	c.cells(keys)
	for i := range cells {
		cells[i].Key = keys[i].Key
	}
	for h := range ForecastHours {
		for i := range cells {
			c.rus(&cells[i].RUs[h])
		}
	}
}

// DecodeForecast returns the forecast of a document.
func DecodeForecast(doc []byte) (Forecast, error) {
	var d forecastDocument
	if err := json.Unmarshal(doc, &d); err != nil {
		return Forecast{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if d.V != Version || d.Type != forecastType || d.From < 0 || d.From > maxNumber || d.Folded < 0 {
		return Forecast{}, fmt.Errorf("%w: type %q, version %d", ErrCorrupt, d.Type, d.V)
	}
	c, err := unpack(d.Data)
	if err != nil {
		return Forecast{}, err
	}
	if d.Cells < 0 || d.Cells > len(c.Rest)/ForecastHours {
		return Forecast{}, fmt.Errorf("%w: %d cells in %d bytes", ErrCorrupt, d.Cells, len(c.Rest))
	}
	f := Forecast{At: d.From, Writer: d.Writer, Folded: d.Folded}
	if d.Cells > 0 {
		f.Cells = make([]Expected, d.Cells)
	}
	c.expected(f.Cells)
	return f, c.end()
}

// MergeForecasts returns the load that is expected at an instant: every writer's newest forecast that is at most maxAge
// ms old, all by the hours that count from now. What was expected of hours that have passed is left out, and of the
// hour that has begun its part that is left.
func MergeForecasts(all []Forecast, now, maxAge int64) Forecast {
	newest := map[string]Forecast{}
	for _, f := range all {
		if old, ok := newest[f.Writer]; f.At <= now && now-f.At <= maxAge && (!ok || old.At < f.At) {
			newest[f.Writer] = f
		}
	}
	out := Forecast{At: now}
	sums := map[Key]*Expected{}
	for _, f := range newest {
		out.Folded += f.Folded
		skip := int((out.Start(0) - f.Start(0)) / Hour)
		for _, e := range f.Cells {
			sum := sums[e.Key]
			if sum == nil {
				sum = &Expected{Key: e.Key}
				sums[e.Key] = sum
			}
			for h := skip; h < ForecastHours; h++ {
				part := 1.0
				if h == skip {
					part = float64(f.Start(h+1)-now) / float64(f.Start(h+1)-max(f.At, f.Start(h)))
				}
				sum.RUs[h-skip] += e.RUs[h] * part
			}
		}
	}
	for _, e := range sums {
		out.Cells = append(out.Cells, *e)
	}
	slices.SortFunc(out.Cells, func(a, b Expected) int { return a.Compare(b.Key) })
	return out
}

// OfContainer returns the cells of one container.
func (f *Forecast) OfContainer(container string) (out []Expected) {
	for _, e := range f.Cells {
		if e.Container == container {
			out = append(out, e)
		}
	}
	return out
}
