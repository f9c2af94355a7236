package provision

import (
	"fmt"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/store"
)

// Follow computes the throughput of hot containers from their load. Its rule is a pure function of the store: what
// was bought, when that changed, and what the container was and will be asked for.
type Follow struct {
	Least int // RU/s, below which none is lowered
	// Use is the part of the bought throughput that the busiest minute may take.
	Use float64
	// Band is the part of the bought throughput by which less must suffice before it is lowered.
	Band float64
	// Calm is the shortest time from any change to a lowering, and how long the load must be known.
	Calm time.Duration
	// Before is how long before the end of a clock hour the next one decides. An hour is billed at the highest
	// throughput that it had (Azure Cosmos DB docs, understand-your-bill), so throughput is lowered then, and only then.
	Before time.Duration
	// Throttled is the factor by which answers 429 raise throughput where use alone does not, once they are Much of the
	// load; fewer raise it by less, and those below Some not at all: a service that is used well refuses 1 % (Azure
	// Cosmos DB docs, monitor-normalized-request-units).
	Throttled  float64
	Some, Much float64
	// Burst is the factor by which the use of a second may exceed the busiest minute's: answers 429 raise throughput
	// to that at most.
	Burst float64
}

// DefaultFollow returns the rule that docs/operate/throughput.md describes.
func DefaultFollow() Follow {
	return Follow{Least: 400, Use: 0.95, Band: 0.02, Calm: 30 * time.Minute, Before: 2 * time.Minute, Throttled: 1.2,
		Some: 0.01, Much: 0.05, Burst: 3}
}

// Load is what a container was asked for, minute by minute, and what it is expected to be asked for. RU/s are what
// the container needs so that its hottest physical partition has its share: the hottest one's load times the number
// of partitions.
type Load struct {
	RUs       []float64 // RU/s by minute, the newest last: of a day and two hours, where so much is known
	Throttled []int64   // answers 429 of the same minutes
	Expected  []float64 // mean RU/s by clock hour, from the present one on, as far as open bins tell
	Most      int       // RU/s that its physical partitions can be given without a split; 0: not known
	Stored    float64   // GB of data and index that a day adds
	// Partitions are, for each physical partition, the RU/s by minute, the newest last; none where only RUs is known.
	Partitions [][]float64
}

const (
	day = 24 * 60 // minutes
	// newest is how many minutes count as now: a steady load is written every five minutes.
	newest = 5
	// wave is how far the busiest minute of an hour lies above its mean where no hour like it is known: bins that fill in
	// step make waves. Simulated, of 5,000 devices of four paces; of 50,000 it is 1.8.
	wave = 2.5
	// mostGrowth bounds what a day's growth makes of the day before, and mostAhead what it makes of the last hour.
	mostGrowth, mostAhead = 3, 1.5
)

// Wanted returns the throughput that a container should have, and why if it has another; changed is when it changed
// last.
func (f Follow) Wanted(now time.Time, seen store.ContainerState, load Load, changed time.Time) (rus int, why string) {
	bought := float64(seen.Throughput.RUs)
	recent := peak(tail(load.RUs, newest))
	refused, throttled := load.refused(min(newest, int(now.Sub(changed)/time.Minute))) // since the last change
	toNext := now.Truncate(time.Hour).Add(time.Hour).Sub(now)
	soon := load.busiest(now, 0)
	switch up := max(recent, soon) / f.Use; {
	case refused >= f.Some && min(bought*f.factor(refused), recent*f.Burst/f.Use) > max(up, bought):
		// Use can't pass what is bought: how much more is asked for is not known.
		return f.raised(seen, load, min(bought*f.factor(refused), recent*f.Burst/f.Use)),
			fmt.Sprintf("%d answers 429 in %d minutes, %.0f %% of the load", throttled, newest, 100*refused)
	case up > bought && soon > recent:
		return f.raised(seen, load, up), fmt.Sprintf("%.0f RU/s are expected", soon)
	case up > bought:
		return f.raised(seen, load, up), fmt.Sprintf("%.0f RU/s were used", recent)
	}
	calm := int(f.Calm / time.Minute)
	if len(load.RUs) < calm || now.Sub(changed) < f.Calm || toNext > f.Before {
		return seen.Throughput.RUs, ""
	}
	most := max(peak(tail(load.RUs, calm)), load.busiest(now, 1))
	if len(load.RUs) >= day+60 || load.Expected != nil {
		most = max(recent, load.busiest(now, 1))
	}
	want := rounded(seen, max(most/f.Use, float64(f.Least)))
	if float64(want) > bought*(1-f.Band) {
		return seen.Throughput.RUs, ""
	}
	return want, fmt.Sprintf("%.0f RU/s suffice for the next hour", most)
}

// factor returns by which factor answers 429 raise throughput that are a part of the load.
func (f Follow) factor(refused float64) float64 { return 1 + (f.Throttled-1)*min(1, refused/f.Much) }

// requestRUs is what a request counts as that was refused: a write of 32 KB. Heat does not count requests.
const requestRUs = 13.1

// refused returns the part of the load of the last minutes that was answered 429, and how many answers these are.
func (l Load) refused(minutes int) (part float64, answers int64) {
	answers = sum(tail(l.Throttled, minutes))
	if answers == 0 {
		return 0, 0
	}
	rus := float64(answers) * requestRUs
	for _, x := range tail(l.RUs, minutes) {
		rus += 60 * x
	}
	return float64(answers) * requestRUs / rus, answers
}

// busiest returns the RU/s that are expected of the busiest minute of a clock hour, h hours after the present one: that
// of the same hour of the day before, grown as the last hour has grown over its own; and at least what open bins tell.
// 0 says that nothing is known.
func (l Load) busiest(now time.Time, h int) float64 {
	before, peakToMean := 0.0, float64(wave)
	// The newest minute is the one that ends now.
	begin := len(l.RUs) - now.Minute() - day + h*60
	if begin >= 0 && begin+60 <= len(l.RUs) {
		hour := l.RUs[begin : begin+60]
		before = peak(hour)
		if m := mean(hour); m > 0 {
			peakToMean = before / m
		}
		before = min(before*l.growth(), mostAhead*max(before, peak(tail(l.RUs, 60))))
	}
	if h < len(l.Expected) {
		before = max(before, l.Expected[h]*peakToMean)
	}
	return before
}

// growth returns by which factor the last hour is above its own of the day before, 1 if that is not known.
func (l Load) growth() float64 {
	if len(l.RUs) < day+60 {
		return 1
	}
	then := mean(l.RUs[len(l.RUs)-day-60 : len(l.RUs)-day])
	if then <= 0 {
		return 1
	}
	return min(mostGrowth, mean(tail(l.RUs, 60))/then)
}

// raised returns throughput that is not below what is bought, and not above what would split physical partitions.
func (f Follow) raised(seen store.ContainerState, load Load, rus float64) int {
	step := int(ru.Step(seen.Throughput.Autoscale))
	want := rounded(seen, rus)
	if load.Most > 0 {
		want = min(want, load.Most/step*step)
	}
	return max(want, seen.Throughput.RUs)
}

// rounded returns throughput in the steps of the container's mode, and not below what the service accepts.
func rounded(seen store.ContainerState, rus float64) int {
	return int(ru.Sold(max(rus, float64(seen.MinRUs)), seen.Throughput.Autoscale))
}

func tail[T any](all []T, n int) []T { return all[max(0, len(all)-max(0, n)):] }

func peak(all []float64) (most float64) {
	for _, x := range all {
		most = max(most, x)
	}
	return most
}

func mean(all []float64) (sum float64) {
	for _, x := range all {
		sum += x / float64(len(all))
	}
	return sum
}

func sum(all []int64) (n int64) {
	for _, x := range all {
		n += x
	}
	return n
}
