package budget_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator/budget"
)

// price is what a request of these tests is charged: no second is overdrawn by more.
const price = 10.0

// second spends what a budget has in one second.
func second(b *budget.Budget, now *time.Time) (spent float64) {
	for {
		if ok, _ := b.Admit(*now, budget.High, 0); !ok {
			*now = now.Add(time.Second)
			return spent
		}
		b.Spend(budget.High, price)
		spent += price
	}
}

func TestBurst(t *testing.T) {
	for _, c := range []struct {
		name  string
		burst bool
		rus   float64
		idle  time.Duration
		want  []float64 // RU in each second after that
	}{
		{"off", false, 400, 5 * time.Minute, []float64{400, 400}},
		{"a full bank of 120,000 RU", true, 400, 5 * time.Minute, []float64{3000, 3000, 3000}},
		{"no more than five minutes are saved", true, 400, time.Hour, []float64{3000, 3000, 3000}},
		{"two idle seconds", true, 400, 2 * time.Second, []float64{1200, 400, 400}},
		{"4,000 RU/s do not burst", true, 4000, 5 * time.Minute, []float64{4000, 4000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			b := budget.New(c.rus, budget.Rules{Burst: c.burst})
			require.InDelta(t, c.rus, second(b, &now), price, "nothing is saved at first")
			now = now.Add(c.idle)
			for i, want := range c.want {
				require.InDelta(t, want, second(b, &now), price, "second %d", i)
			}
		})
	}
}

// The documentation's example: 100 RU/s, idle for five minutes, have 30,000 RU to spend.
func TestBurstRunsOut(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	b := budget.New(100, budget.Rules{Burst: true})
	second(b, &now)
	now = now.Add(10 * time.Minute)
	total, seconds := 0.0, 0
	for n := second(b, &now); n >= 200; n = second(b, &now) {
		total += n
		seconds++
	}
	require.InDelta(t, 30_000+100*float64(seconds), total, 150)
	require.InDelta(t, 10, seconds, 1)
}
