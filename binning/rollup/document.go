package rollup

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsonscan"
	"binnacle/internal/wire/jsontext"
)

// Header is the part of a document of rollups that is not its sections.
type Header struct {
	ID          string
	TenantShard string // level 1 of the partition key
	Key         string // level 2: of Key, or CorrectionsKey
	Day         telemetry.Day
	Batch       string
	Part        int
	From, To    int   // hours of the day, from one up to and without the other
	Grid        Grid  // the grid of sections that name no other
	TTL         int64 // seconds from the write until the service removes it, 0 for never
}

// Series is what a row is of: the samples of a metric that a device sends with these labels.
type Series struct {
	Device string
	Labels telemetry.Labels
}

// Compare orders series by device, then labels.
func (s Series) Compare(t Series) int {
	if order := strings.Compare(s.Device, t.Device); order != 0 {
		return order
	}
	return s.Labels.Compare(t.Labels)
}

// maxSections is the most sections of a document.
const maxSections = 1 << 12

// Builder makes documents. The zero Builder has none.
type Builder struct {
	doc      []byte
	sections int
	grid     Grid
	tooLarge bool // the contents pass a limit of Parse
}

// Begin begins a document. Series is the series index of a document that has its own, nil for none.
func (b *Builder) Begin(h Header, series []Series) {
	b.sections, b.grid, b.tooLarge = 0, h.Grid, len(series) > MaxSeries
	b.doc = appendHead(b.doc[:0], "rollup", h)
	b.doc = appendInteger(b.doc, "grid", int64(h.Grid))
	if series != nil {
		b.doc = appendSeries(append(b.doc, ','), series)
	}
	b.doc = append(b.doc, `,"sections":[`...)
}

// Add adds a section, as AppendSection does. On a grid other than the header's, the section says so.
func (b *Builder) Add(metric string, f Family, g Grid, s Slice) {
	if b.sections++; b.sections > 1 {
		b.doc = append(b.doc, ',')
	}
	b.tooLarge = b.tooLarge || b.sections > maxSections || !s.fits(f)
	b.doc = AppendSection(b.doc, metric, f, s)
	if g != b.grid {
		b.doc = appendInteger(b.doc[:len(b.doc)-1], "grid", int64(g))
		b.doc = append(b.doc, '}')
	}
}

// End returns the document, valid until the next Begin. It fails with ErrTooLarge.
func (b *Builder) End() ([]byte, error) {
	b.doc = append(b.doc, ']', '}')
	if b.tooLarge || len(b.doc) > MaxDocument {
		return nil, ErrTooLarge
	}
	return b.doc, nil
}

func appendHead(dst []byte, kind string, h Header) []byte {
	dst = jsontext.AppendString(append(dst, `{"id":`...), h.ID)
	dst = appendInteger(dst, "v", Version)
	dst = append(append(append(dst, `,"type":"`...), kind...), `","tenantShard":`...)
	dst = jsontext.AppendString(dst, h.TenantShard)
	dst = jsontext.AppendString(append(dst, `,"rollup":`...), h.Key)
	r := Range(h.Day, h.From, h.To)
	dst = appendInteger(dst, "from", r.From)
	dst = appendInteger(dst, "to", h.Day.Start()+int64(h.To)*hourMillis)
	dst = append(append(append(dst, `,"day":"`...), h.Day.String()...), '"')
	dst = append(strconv.AppendInt(append(dst, `,"hours":[`...), int64(h.From), 10), ',')
	dst = append(strconv.AppendInt(dst, int64(h.To), 10), ']')
	dst = jsontext.AppendString(append(dst, `,"batch":`...), h.Batch)
	dst = appendInteger(dst, "part", int64(h.Part))
	if h.TTL > 0 {
		dst = appendInteger(dst, "ttl", h.TTL)
	}
	return dst
}

// appendSeries appends the property with a series index: per series an array of the device and, where there are some,
// the labels. A device equal to the one before is written as "".
func appendSeries(dst []byte, series []Series) []byte {
	dst = append(dst, `"seriesIndex":[`...)
	for i, s := range series {
		if i > 0 {
			dst = append(dst, ',')
		}
		device := s.Device
		if i > 0 && series[i-1].Device == device {
			device = ""
		}
		dst = jsontext.AppendString(append(dst, '['), device)
		if len(s.Labels) > 0 {
			dst = jsontext.AppendLabels(append(dst, ','), s.Labels)
		}
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

// AppendSeriesIndex appends the document that names the series of a part, in their order.
func AppendSeriesIndex(dst []byte, h Header, series []Series) []byte {
	dst = appendSeries(append(appendHead(dst, "seriesIndex", h), ','), series)
	return append(dst, '}')
}

// Document is a parsed document, not yet decoded. It refers to the bytes that it was parsed from.
type Document struct {
	Header
	// SeriesIndex is the contents of a series index, or the document's own; nil for none.
	SeriesIndex []Series
	Sections    []Section
	ETag        string
	Stored      int64 // s since 1970 UTC, by the service; 0 when it does not say
}

// Parse reads a rollup or a series index. It keeps doc. Properties that it does not know are passed over.
func Parse(doc []byte) (*Document, error) {
	if len(doc) > MaxDocument+4<<10 { // the service adds properties
		return nil, corrupt("a document of %d bytes", len(doc))
	}
	p := documentParser{d: &Document{}}
	p.r.Reset(doc)
	err := p.r.Object(p.property)
	switch {
	case err != nil && errors.Is(err, ErrCorrupt):
		return nil, err
	case err != nil:
		return nil, corrupt("%v", err)
	case !p.r.End():
		return nil, corrupt("more after the end")
	}
	return p.d, p.check()
}

type documentParser struct {
	r       jsonscan.Scanner
	d       *Document
	version int
	kind    string
	day     string
}

func (p *documentParser) property(name []byte) (err error) {
	d, r := p.d, &p.r
	switch string(name) {
	case "id":
		d.ID, err = text(r)
	case "v":
		p.version, err = within(r, 0, 1<<30)
	case "type":
		p.kind, err = text(r)
	case "tenantShard":
		d.TenantShard, err = text(r)
	case "rollup":
		d.Key, err = text(r)
	case "day":
		p.day, err = text(r)
	case "hours":
		err = r.Array(func(i int) (err error) {
			switch i {
			case 0:
				d.From, err = within(r, 0, HoursOfDay-1)
			case 1:
				d.To, err = within(r, 1, HoursOfDay)
			default:
				err = corrupt("more than two hours")
			}
			return err
		})
	case "batch":
		d.Batch, err = text(r)
	case "part":
		d.Part, err = within(r, 0, MaxSeries)
	case "grid":
		var n int
		n, err = within(r, 1, int(HalfHour))
		d.Grid = Grid(n)
	case "ttl":
		var n int
		n, err = within(r, 1, 1<<31-1)
		d.TTL = int64(n)
	case "_ts":
		var n int
		n, err = within(r, 0, 1<<40)
		d.Stored = int64(n)
	case "_etag":
		d.ETag, err = text(r)
	case "seriesIndex":
		d.SeriesIndex = []Series{}
		err = p.seriesIndex()
	case "sections":
		err = r.Array(func(int) error {
			if len(d.Sections) >= maxSections {
				return corrupt("too many sections")
			}
			d.Sections = append(d.Sections, Section{})
			s := &d.Sections[len(d.Sections)-1]
			return r.Object(func(name []byte) error { return s.property(r, name) })
		})
	default:
		err = r.Skip()
	}
	return err
}

func (p *documentParser) seriesIndex() error {
	return p.r.Array(func(int) error {
		if len(p.d.SeriesIndex) >= MaxSeries {
			return corrupt("a series index of more than %d", MaxSeries)
		}
		var s Series
		err := p.r.Array(func(i int) (err error) {
			switch i {
			case 0:
				s.Device, err = text(&p.r)
			case 1:
				s.Labels, err = p.labels()
			default:
				err = corrupt("a series of more than device and labels")
			}
			return err
		})
		if err != nil {
			return err
		}
		if n := len(p.d.SeriesIndex); s.Device == "" && n > 0 {
			s.Device = p.d.SeriesIndex[n-1].Device
		}
		if n := len(p.d.SeriesIndex); s.Device == "" || n > 0 && p.d.SeriesIndex[n-1].Compare(s) >= 0 {
			return corrupt("series %q stands out of order", s.Device)
		}
		p.d.SeriesIndex = append(p.d.SeriesIndex, s)
		return nil
	})
}

func (p *documentParser) labels() (telemetry.Labels, error) {
	raw, err := p.r.Value()
	if err != nil {
		return nil, err
	}
	var set map[string]string
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, corrupt("%v", err)
	}
	return telemetry.LabelsOf(set), nil
}

func (p *documentParser) check() (err error) {
	d := p.d
	if p.version != Version || p.kind != "rollup" && p.kind != "seriesIndex" {
		return corrupt("type %q of version %d", p.kind, p.version)
	}
	if d.Day, err = telemetry.ParseDay(p.day); err != nil {
		return corrupt("%v", err)
	}
	if d.From >= d.To || d.ID != ID(d.Key, d.Day, d.From, d.Part, d.Batch) {
		return corrupt("id %.300q is not of key %.300q, day %s, hours %d to %d, part %d, batch %.40q", d.ID, d.Key, d.Day,
			d.From, d.To, d.Part, d.Batch)
	}
	if p.kind == "seriesIndex" {
		if d.SeriesIndex == nil || len(d.Sections) > 0 {
			return corrupt("a series index without series, or with sections")
		}
		return nil
	}
	for i := range d.Sections {
		s := &d.Sections[i]
		if s.Grid == 0 {
			s.Grid = d.Grid
		}
		if s.Grid != Minute && s.Grid != HalfHour || s.Buckets != (d.To-d.From)*s.Grid.PerHour() {
			return corrupt("%d buckets of %d ms in %d hours", s.Buckets, s.Grid, d.To-d.From)
		}
		if err := s.check(); err != nil {
			return err
		}
	}
	return nil
}

// FindSeries returns the place of a series in a sorted series index, -1 if it is not in it.
func FindSeries(index []Series, s Series) int {
	at, found := slices.BinarySearchFunc(index, s, Series.Compare)
	if !found {
		return -1
	}
	return at
}
