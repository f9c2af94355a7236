// Package simulate_test runs two years of an account in seconds: a virtual clock, the load by the minute, the rules of
// the service, and the code that decides in production, internal/provision. docs/reference/cost.md has its figures.
package simulation_test

import (
	"math"
	"math/rand/v2"
)

const (
	dayMinutes = 24 * 60
	years      = 730 // days
	// bytesPerRU is what a request unit of writes stores: documents of 32 KB and their index.
	bytesPerRU = 1.1 * (32 << 10) / 13.1
	targetSize = 32 << 10
	// aloneSize is up to which size the rest of a day stays in one document.
	aloneSize = 1.25 * 0.97 * targetSize
	noises    = 1 << 13
)

// waves is the RU of chunk writes by minute of a day, with a mean of 1 for both parts together.
type waves struct {
	full [dayMinutes]float64 // of bins of the day, which are full
	rest [dayMinutes]float64 // of bins of the day before, which are cut in the twelve hours after its end
}

// newWaves returns the cuts of so many devices: a tenth report each second, three tenths every ten, four every minute
// and two every five, ten metrics of 0.8 bytes. Bins of one pace begin at midnight and are full at about one time.
func newWaves(devices int, random *rand.Rand) (w waves) {
	total := 0.0
	for range devices {
		seconds := 300.0
		switch x := random.Float64(); {
		case x < 0.1:
			seconds = 1
		case x < 0.4:
			seconds = 10
		case x < 0.8:
			seconds = 60
		}
		// Devices differ by 15 %, and so do their days.
		perMinute := 60 * 8 / seconds * math.Exp(0.15*random.NormFloat64()+0.15*random.NormFloat64())
		at, left := 0.0, perMinute*dayMinutes
		for {
			size := targetSize * (1 + 0.02*random.NormFloat64())
			if left <= aloneSize {
				break
			}
			at, left = at+size/perMinute, left-size
			w.full[min(int(at), dayMinutes-1)] += charge(size)
			total += charge(size)
		}
		if left > 0 {
			w.rest[int(random.Float64()*dayMinutes/2)] += charge(left)
			total += charge(left)
		}
	}
	for m := range dayMinutes {
		w.full[m] *= dayMinutes / total
		w.rest[m] *= dayMinutes / total
	}
	return w
}

// charge returns about what a create of so many bytes is charged: 7 RU at 1 KB, 13.1 at 32 KB.
func charge(bytes float64) float64 { return 7 + 6.1*min(2, bytes/targetSize) }

// tenant is what one tenant asks for.
type simulated struct {
	writes, queries float64 // mean RU/s on the first day
	growth          float64 // a day
	phase           float64 // of its day, in days
	from, to        int     // minutes, within which it writes and queries
	// Explosion: from one minute to the next, times a factor.
	explodes, calms int
	factor          float64
}

// scale returns by what factor a tenant's load is above its mean of the first day, at a minute.
func (t *simulated) scale(m int) float64 {
	if m < t.from || m >= t.to {
		return 0
	}
	days := float64(m) / dayMinutes
	s := math.Pow(1+t.growth, days) * (1 + 0.15*math.Sin(2*math.Pi*days/365))
	if m >= t.explodes && m < t.calms {
		s *= t.factor
	}
	return s
}

// asks returns how a tenant's queries are spread over days and weeks, with a mean of about 1.
func (t *simulated) asks(m int) float64 {
	days := float64(m) / dayMinutes
	week := 1.1
	if int(days)%7 >= 5 {
		week = 0.75
	}
	return week * (1 + 0.5*math.Sin(2*math.Pi*(days+t.phase)))
}

// The tenants, by what happens to them.
const (
	exploding = 3
	leaving   = 4
	moving    = 5
	tenants   = 6
)

// fleet is the load of one run.
type fleet struct {
	tenants [tenants]simulated
	days    [7]waves
	noise   [noises]float64
	// The tenant that moves has its own containers from one day to another.
	own, back int
	// Late data comes to older months from one minute to another, RU/s for each of three months.
	lateFrom, lateTo int
	late             float64
}

// newFleet draws a fleet: 2,000 to 200,000 devices, and queries that take 100 to 2,000 RU/s.
func newFleet(random *rand.Rand) *fleet {
	f := &fleet{}
	for i := range f.days {
		f.days[i] = newWaves(4000, random)
	}
	for i := range f.noise {
		f.noise[i] = math.Exp(0.08 * random.NormFloat64())
	}
	writes := math.Exp(random.Float64() * math.Log(100))
	queries := 100 * math.Exp(random.Float64()*math.Log(20))
	for i := range f.tenants {
		part := []float64{0.35, 0.2, 0.15, 0.05, 0.1, 0.15}[i]
		f.tenants[i] = simulated{writes: writes * part, queries: queries * part, growth: 0.0015 * random.Float64(),
			phase: random.Float64() / 4, to: years * dayMinutes}
	}
	at := func(from, to int) int { return (from + random.IntN(to-from)) * dayMinutes }
	boom := &f.tenants[exploding]
	boom.explodes = at(100, 600) + random.IntN(dayMinutes)
	boom.calms = boom.explodes + at(2, 20)
	// What it takes fits into one physical partition: throughput is not raised beyond what would split them.
	boom.factor = min(5+25*random.Float64(), 3000/((boom.writes+boom.queries)*boom.scale(boom.calms)))
	f.tenants[leaving].to = at(200, 500)
	f.own = 120 + random.IntN(100)
	f.back = f.own + 60 + random.IntN(200)
	f.lateFrom = at(300, 650) + random.IntN(dayMinutes)
	f.lateTo = f.lateFrom + 36*60
	f.late = 50 + 600*random.Float64()
	return f
}

// at returns the RU/s of writes of the day's bins, of those of the day before, and of queries, of a tenant in a minute.
// The three values of hour are its scale and the spread of its queries, as they are at the hour's begin.
func (f *fleet) at(i, m int, scale, asks float64) (full, rest, queries float64) {
	t := &f.tenants[i]
	w := &f.days[m/dayMinutes%len(f.days)]
	before := &f.days[(m/dayMinutes+len(f.days)-1)%len(f.days)]
	n := f.noise[(m*7+i*911)%noises]
	return t.writes * scale * w.full[m%dayMinutes], t.writes * scale * before.rest[m%dayMinutes],
		t.queries * scale * asks * n
}
