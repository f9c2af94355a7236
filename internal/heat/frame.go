package heat

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"

	"binnacle/internal/wire/bytesread"
	"binnacle/sharding"
)

// Layer is how finely a frame divides time.
type Layer string

// The layers. Processes write minutes; hours are made of minutes, days of hours.
const (
	Minutes Layer = "minute"
	Hours   Layer = "hour"
	Days    Layer = "day"
)

// Times in ms.
const (
	Minute = int64(60_000)
	Hour   = 60 * Minute
	Day    = 24 * Hour
)

// Step returns how long a frame of the layer covers at most, in ms; 0 for an unknown layer.
func (l Layer) Step() int64 {
	switch l {
	case Minutes:
		return MaxMinutes * Minute
	case Hours:
		return Hour
	case Days:
		return Day
	}
	return 0
}

// MaxMinutes bounds the minutes of a cell: so much later than it happened a steady load is written.
const MaxMinutes = 5

// Frame counts requests from From to To, both ms since 1970 UTC, To not included: by one process in the layer of
// minutes, by all in the others.
type Frame struct {
	Layer    Layer
	From, To int64
	Writer   string // process; "" in the layers of hours and days
	Part, Of int    // which of how many documents of one frame: 0 of 1
	Cells    []Cell
	// Folded counts the keys that lie in cells without a name. Lost counts the RU of minutes that could not be written.
	Folded int
	Lost   float64
}

type frameDocument struct {
	V      int     `json:"v"`
	Type   string  `json:"type"`
	Layer  Layer   `json:"layer"`
	From   int64   `json:"from"`
	To     int64   `json:"to"`
	Writer string  `json:"writer,omitempty"`
	Part   int     `json:"part,omitempty"`
	Of     int     `json:"of"`
	Folded int     `json:"folded,omitempty"`
	Lost   float64 `json:"lost,omitempty"`
	Cells  int     `json:"cells"`
	Data   string  `json:"data"`
}

const frameType = "heat"

// Encode returns the document of a frame. It sorts the cells.
func (f Frame) Encode() ([]byte, error) {
	if f.Layer.Step() == 0 || f.From >= f.To {
		return nil, fmt.Errorf("heat: a frame of layer %q from %d to %d", f.Layer, f.From, f.To)
	}
	sortCells(f.Cells)
	c := newColumns()
	c.cells(f.Cells)
	return json.Marshal(frameDocument{Version, frameType, f.Layer, f.From, f.To, f.Writer, f.Part, max(1, f.Of), f.Folded,
		f.Lost, len(f.Cells), c.packed()})
}

// cells appends or reads columns, each of all cells: containers by number, names, slots of cells without a name,
// minutes, which kinds there are, amounts.
func (c *columns) cells(cells []Cell) {
	var containers []string
	for _, cell := range cells {
		if c.Appends && (len(containers) == 0 || containers[len(containers)-1] != cell.Container) {
			containers = append(containers, cell.Container)
		}
	}
	bytesread.List(c.Of(1), &containers, c.Text)
	at := -1
	for i := range cells {
		step := 0
		if i == 0 || cells[i-1].Container != cells[i].Container {
			step = 1
		}
		bytesread.Uint(&c.Codec, &step, 1)
		if at += step; at < 0 || at >= len(containers) {
			c.Failf("container %d of %d", at, len(containers))
			return
		}
		cells[i].Container = containers[at]
	}
	before := ""
	for i := range cells {
		c.front(before, &cells[i].Shard)
		before = cells[i].Shard
	}
	for i := range cells {
		if cells[i].Shard == "" {
			bytesread.Uint(&c.Codec, &cells[i].Slot, sharding.Slots-1)
		} else if !c.Appends {
			cells[i].Slot = sharding.SlotOf(cells[i].Shard)
		}
	}
	for i := range cells {
		bytesread.Uint(&c.Codec, &cells[i].Minutes, MaxMinutes)
	}
	masks := make([]uint64, len(cells))
	for i := range masks {
		masks[i] = cells[i].mask()
		bytesread.Uint(&c.Codec, &masks[i], 1<<(Kinds+2)-1)
	}
	for i, mask := range masks {
		c.amount(&cells[i].Amount, mask)
	}
}

// The bits of a mask after those for kinds.
const (
	hasBytes     = 1 << Kinds
	hasThrottled = 1 << (Kinds + 1)
)

func (a *Amount) mask() (mask uint64) {
	for k, r := range a.RUs {
		if hundredths(r) > 0 {
			mask |= 1 << k
		}
	}
	if a.Bytes > 0 {
		mask |= hasBytes
	}
	if a.Throttled > 0 {
		mask |= hasThrottled
	}
	return mask
}

func (c *columns) amount(a *Amount, mask uint64) {
	for kinds := mask & (1<<Kinds - 1); kinds != 0; kinds &= kinds - 1 {
		c.rus(&a.RUs[bits.TrailingZeros64(kinds)])
	}
	if mask&hasBytes != 0 {
		c.number(&a.Bytes)
	}
	if mask&hasThrottled != 0 {
		c.number(&a.Throttled)
	}
}

// DecodeFrame returns the frame of a document. Properties that it does not know are passed over.
func DecodeFrame(doc []byte) (Frame, error) {
	var d frameDocument
	if err := json.Unmarshal(doc, &d); err != nil {
		return Frame{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	f := Frame{Layer: d.Layer, From: d.From, To: d.To, Writer: d.Writer, Part: d.Part, Of: d.Of, Folded: d.Folded,
		Lost: d.Lost}
	switch {
	case d.V != Version || d.Type != frameType:
		return Frame{}, fmt.Errorf("%w: type %q, version %d", ErrCorrupt, d.Type, d.V)
	case d.From < 0 || d.From >= d.To || d.To > maxNumber || d.To-d.From > d.Layer.Step():
		return Frame{}, fmt.Errorf("%w: layer %q from %d to %d", ErrCorrupt, d.Layer, d.From, d.To)
	case d.Part < 0 || d.Part >= d.Of || d.Folded < 0 || d.Lost < 0 || math.IsInf(d.Lost, 0):
		return Frame{}, fmt.Errorf("%w: part %d of %d", ErrCorrupt, d.Part, d.Of)
	}
	c, err := unpack(d.Data)
	if err != nil {
		return Frame{}, err
	}
	if d.Cells < 0 || d.Cells > len(c.Rest)/5 {
		return Frame{}, fmt.Errorf("%w: %d cells in %d bytes", ErrCorrupt, d.Cells, len(c.Rest))
	}
	f.Cells = make([]Cell, d.Cells)
	c.cells(f.Cells)
	return f, c.end()
}

// Documents returns the documents of a frame: as many as it needs, most at most. Where that is too few for documents of
// TargetBytes, the lightest keys lose their names; the sums by slot stay, whatever their size.
func (f Frame) Documents(most int) ([][]byte, error) {
	all, named := f.Cells, len(f.Cells)
	for parts := 1; ; {
		docs, largest, err := f.parts(parts)
		switch {
		case err != nil || largest <= TargetBytes || named == 0:
			return docs, err
		case parts < most:
			parts = min(most, max(parts+1, parts*largest/TargetBytes))
			continue
		}
		named = min(named*9/10, named*TargetBytes/largest)
		f.Cells, f.Folded = Fold(all, named)
	}
}

// parts returns the frame in n documents, and the size of the largest.
func (f Frame) parts(n int) (docs [][]byte, largest int, err error) {
	cells := f.Cells
	sortCells(cells)
	for i := range n {
		part := f
		part.Part, part.Of = i, n
		part.Cells = cells[i*len(cells)/n : (i+1)*len(cells)/n]
		if i > 0 {
			part.Folded, part.Lost = 0, 0
		}
		doc, err := part.Encode()
		if err != nil {
			return nil, 0, err
		}
		docs, largest = append(docs, doc), max(largest, len(doc))
	}
	return docs, largest, nil
}
