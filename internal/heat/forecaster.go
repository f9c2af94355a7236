package heat

import "slices"

// Pieces is how many equal parts a day has in a Shape.
const Pieces = 48

const piece = Day / Pieces // ms

// Shape is how a tenant's readings are spread over a UTC day: what each half hour has, the mean being 1.
type Shape [Pieces]float64

// leastShape keeps a half hour that was empty yesterday from being expected to be empty.
const leastShape = 0.01

// NewShape returns the shape of what came in the half hours of a day; an even one if nothing came.
func NewShape(came [Pieces]float64) (s Shape) {
	sum := 0.0
	for _, c := range came {
		sum += c
	}
	for k, c := range came {
		s[k] = 1
		if sum > 0 {
			s[k] = max(c*Pieces/sum, leastShape)
		}
	}
	return s
}

// Weight returns the ms from from to to, each counted as much as the shape says.
func (s *Shape) Weight(from, to int64) (sum float64) {
	for at := from; at < to; {
		until := min(to, (at/piece+1)*piece)
		sum += s[at/piece%Pieces] * float64(until-at)
		at = until
	}
	return sum
}

// Cutting says how bins become chunks. All are bytes of a document.
type Cutting struct {
	Target float64 // at which a bin is cut
	// Alone is the size up to which the remaining rows of a day stay in one document.
	Alone float64
	// Fixed are the bytes that do not grow with readings; the other sizes are without them.
	Fixed float64
}

// OpenBin is a bin as its ingester has it.
type OpenBin struct {
	// Keys are those of its next chunk and of the following ones, in turn.
	Keys []Key
	// Tomorrow are the keys of the device's chunks of the next day; nil to expect none.
	Tomorrow []Key
	DayEnd   int64 // ms, of its readings' day
	// Due is when the remaining rows of the day are cut, in ms: a function of the device and the day.
	Due   int64
	Began int64 // ms, of its first reading
	// Bytes is the size of its document without the fixed bytes.
	Bytes   float64
	Cutting Cutting
	// Before is when what the device sent before this bin came, a chunk or a bin of the day before, and BeforeBytes its
	// bytes. Empty if nothing is known.
	Before      Span
	BeforeBytes float64
}

// leastPace is how long a bin must have been open for its pace to count, ms.
const leastPace = Hour / 2

// blurred is the part of the time from now, or from the begin of its day, by which a cut for size may come earlier or
// later, and leastBlur ms is the least.
const (
	blurred   = 0.08
	leastBlur = float64(Minute)
)

// pace returns the bytes that a device sends in a ms that counts 1 in its tenant's shape.
func (b *OpenBin) pace(now int64, s *Shape) float64 {
	since, bytes := s.Weight(b.Began, now), b.Bytes
	if now-b.Began < leastPace && b.Before.To > b.Before.From {
		since, bytes = since+s.Weight(b.Before.From, b.Before.To), bytes+b.BeforeBytes
	}
	return bytes / max(since, float64(Minute))
}

// Forecaster adds up what open bins are expected to take. It is for one goroutine.
type Forecaster struct {
	charge func(bytes float64) float64
	out    Forecast
	sums   map[Key]*Expected
}

// NewForecaster returns a Forecaster as of an instant, in ms. charge returns the RU of a document of a size.
func NewForecaster(now int64, charge func(bytes float64) float64) *Forecaster {
	return &Forecaster{charge, Forecast{At: now}, map[Key]*Expected{}}
}

// Add adds a bin, and what its device is expected to send until the forecast ends, of a tenant of that shape.
func (f *Forecaster) Add(b *OpenBin, s *Shape) {
	now := f.out.At
	if b.DayEnd <= now {
		f.expect(b.Keys[0], Span{From: max(b.Due, now), To: max(b.Due, now)},
			b.Bytes+b.Cutting.Fixed)
		return
	}
	pace := b.pace(now, s)
	limit := b.Cutting.Target
	if b.Bytes >= limit {
		limit = max(b.Cutting.Alone, b.Bytes)
	}
	f.day(chain{keys: b.Keys, pace: pace, from: now, began: b.Began, end: b.DayEnd, due: b.Due, fill: b.Bytes,
		limit: limit, cutting: b.Cutting}, s)
	if b.Tomorrow != nil && b.DayEnd < f.out.Start(ForecastHours) {
		f.day(chain{keys: b.Tomorrow, pace: pace, from: b.DayEnd, began: b.DayEnd, end: b.DayEnd + Day, due: b.Due + Day,
			limit: b.Cutting.Target, cutting: b.Cutting}, s)
	}
}

// chain is the bins of a device and day from an instant on.
type chain struct {
	keys        []Key
	pace        float64
	from        int64 // ms
	began       int64 // ms, of the open bin
	end, due    int64 // ms, of the day and of its last cut
	fill, limit float64
	cutting     Cutting
}

func (f *Forecaster) day(c chain, s *Shape) {
	horizon, number := f.out.Start(ForecastHours), 0
	cut := func(over Span) {
		f.expect(c.keys[number%len(c.keys)], over, c.fill+c.cutting.Fixed)
		number++
	}
	for at := c.from; at < c.end && at < horizon; {
		until := min(c.end, (at/piece+1)*piece)
		rate := c.pace * s[at/piece%Pieces]
		need := until - at + 1 // not within this half hour
		if rate > 0 {
			need = int64(min((c.limit-c.fill)/rate, float64(need)))
		}
		if at+need > until {
			c.fill += rate * float64(until-at)
			at = until
			continue
		}
		at += max(1, need)
		c.fill = c.limit
		// Ingesters go by the pace of the bin so far, whatever the shape.
		day := c.fill * float64(c.end-c.began) / float64(max(1, at-c.began))
		if c.limit < c.cutting.Alone && day <= c.cutting.Alone {
			c.limit = c.cutting.Alone
			continue
		}
		width := int64(leastBlur + blurred*float64(at-c.from))
		cut(Span{From: at - width, To: at + width})
		c.fill, c.began, c.limit = 0, at, c.cutting.Target
	}
	if c.fill > 0 && c.end < horizon {
		cut(Span{From: c.due, To: c.due})
	}
}

// expect adds the charge of a chunk that is cut at some time in a span.
func (f *Forecaster) expect(k Key, over Span, bytes float64) {
	rus := f.charge(bytes)
	e := f.sums[k]
	if e == nil {
		e = &Expected{Key: k}
		f.sums[k] = e
	}
	from, to := max(over.From, f.out.At), max(over.To, f.out.At+1)
	to = max(to, from+1)
	for h := int((from - f.out.Start(0)) / Hour); h < ForecastHours && f.out.Start(h) < to; h++ {
		part := min(to, f.out.Start(h+1)) - max(from, f.out.Start(h))
		e.RUs[h] += rus * float64(part) / float64(to-from)
	}
}

// Forecast returns what was added up.
func (f *Forecaster) Forecast() Forecast {
	out := f.out
	for _, e := range f.sums {
		out.Cells = append(out.Cells, *e)
	}
	slices.SortFunc(out.Cells, func(a, b Expected) int { return a.Compare(b.Key) })
	return out
}
