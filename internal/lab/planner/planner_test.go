package planner_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"binnacle/internal/lab/planner"

	"github.com/stretchr/testify/require"
)

// workload is the file of the guide.
var workload = func() []byte {
	text, err := os.ReadFile("../../../docs/start/plan-pumps.yaml")
	if err != nil {
		panic(err)
	}
	return text
}()

func plan(t *testing.T, sets ...string) (planner.Workload, *planner.Plan) {
	t.Helper()
	return planOf(t, 250, sets...)
}

// planOf returns the plan of so many futures.
func planOf(t *testing.T, futures int, sets ...string) (planner.Workload, *planner.Plan) {
	t.Helper()
	w, err := planner.Parse(workload, sets)
	require.NoError(t, err)
	p, err := planner.New(w, 1, futures)
	require.NoError(t, err)
	return w, p
}

// Of 200 futures that the plan has not seen, 90 % lie in its band, and the band is narrow enough to decide by.
func TestBandHolds(t *testing.T) {
	t.Parallel()
	w, p := planOf(t, 1000, "without=[free, shared]")
	total := p.Bill[len(p.Bill)-1]
	for seed := uint64(2); seed < 5; seed++ {
		futures, err := planner.Totals(w, p, seed, 200)
		require.NoError(t, err)
		within := 0
		for _, d := range futures {
			if d >= total.P5 && d <= total.P95 {
				within++
			}
		}
		require.True(t, 170 <= within && within <= 190, "%d of 200, seed %d", within, seed)
	}
	require.LessOrEqual(t, total.P95/total.P5, 2.0)
}

// Where values take less than any encoding does, a document of the plan is too large to be encoded at once.
func TestPlanOfTinyValues(t *testing.T) {
	t.Parallel()
	w, err := planner.Parse(workload, []string{"tenants=1", "growth=0", "fleets.pumps.devices=10",
		"fleets.pumps.interval=1s", "fleets.pumps.metrics.gauge=1", "fleets.pumps.metrics.truck=1",
		"fleets.pumps.bytes-per-value=0.075"})
	require.NoError(t, err)
	p, err := planner.New(w, 1, 10)
	require.NoError(t, err)
	require.True(t, len(p.Documents) > 0)
}

// The lines make the total where nothing is uncertain, and the same file and seed give the same documents.
func TestPlanOfACertainWorkload(t *testing.T) {
	t.Parallel()
	sets := []string{"tenants=10", "growth=0", "fleets.pumps.devices=10000", "fleets.pumps.interval=5m",
		"fleets.pumps.metrics.gauge=4", "queries.0.rate=2", "queries.2.rate=0.1"}
	_, p := plan(t, sets...)
	sum := 0.0
	for _, l := range p.Bill[:len(p.Bill)-1] {
		require.Equal(t, l.P5, l.P95, l.Name)
		sum += l.P50
	}
	require.InDelta(t, p.Bill[len(p.Bill)-1].P50, sum, 1e-6)
	require.Len(t, p.Ways, 7)
	for _, w := range p.Ways {
		require.GreaterOrEqual(t, w.More, 0.0, w.Way)
	}
	require.True(t, len(p.Documents) > 0)

	_, again := plan(t, sets...)
	for _, document := range []func(*planner.Plan) (string, error){(*planner.Plan).Requirements, (*planner.Plan).Model} {
		text, err := document(p)
		require.NoError(t, err)
		other, err := document(again)
		require.NoError(t, err)
		require.Equal(t, text, other)
		require.NotContains(t, text, "NaN")
		require.NotContains(t, text, "Inf")
	}
	var out bytes.Buffer
	require.NoError(t, p.Print(&out))
	require.Contains(t, out.String(), "a document per reading, $")
}

// What is asked about a workload changes what it is about.
func TestWhatIf(t *testing.T) {
	t.Parallel()
	_, p := plan(t, "without=[free, serverless]")
	_, double := plan(t, "regions=2", "without=[free]")
	last := len(p.Bill) - 1
	require.InEpsilon(t, 2*p.Bill[last].P50, double.Bill[last].P50, 0.02)
	_, seldom := plan(t, "fleets.pumps.interval=1h", "fleets.0.devices=1000")
	require.Less(t, seldom.Figures[1].P50, p.Figures[1].P50/50)
	require.True(t, seldom.Triggers[len(seldom.Triggers)-1].Reached, "slow and small: a date key would do by the guide")
	_, heavy := plan(t, "fleets.0.devices=30000000")
	require.True(t, heavy.Triggers[1].Reached, "100,000 writes a second")
	require.Greater(t, heavy.Slots, 4)
}

// wayOf returns a way to buy of a plan.
func wayOf(t *testing.T, p *planner.Plan, name string) planner.Way {
	t.Helper()
	i := slices.IndexFunc(p.Ways, func(w planner.Way) bool { return w.Way == name })
	require.GreaterOrEqual(t, i, 0, name)
	return p.Ways[i]
}

func figureOf(t *testing.T, p *planner.Plan, name string) float64 {
	t.Helper()
	i := slices.IndexFunc(p.Figures, func(f planner.Figure) bool { return f.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return p.Figures[i].P50
}

// What a plan says of the free tier, serverless, manual and reserved is what a person computes from the prices, to the
// cent: one month of a certain fleet that nobody asks.
func TestBillsByHand(t *testing.T) {
	t.Parallel()
	_, p := plan(t, "tenants=1", "growth=0", "months=1", "retention=1d", "fleets.pumps.devices=100",
		"fleets.pumps.interval=1m", "fleets.pumps.late=0", "fleets.pumps.metrics={gauge: 10}", "queries=[]")
	chunkRUs := figureOf(t, p, "chunks written") * figureOf(t, p, "RU of a chunk") * 730 * 3600
	require.InDelta(t, 100*30.4*12, chunkRUs, 3_000, "a chunk of a device and day, of some 12 RU")
	cents := func(want float64, w planner.Way) {
		t.Helper()
		require.Equal(t, fmt.Sprintf("%.2f", want), fmt.Sprintf("%.2f", w.P50), w.Way)
	}
	// Serverless: writes, and the deletes of a month but for its first day; a million RU of background work; a gigabyte
	// of control, catalog, heat and chunks.
	expired := 1 - 1/30.4
	cents((chunkRUs*(1+expired)+1e6)/1e6*0.25+4*0.25, wayOf(t, p, "serverless"))
	// Shared: 400 RU/s for 730 hours, and the four gigabytes.
	shared := 400.0/100*0.008*730 + 4*0.25
	cents(shared, wayOf(t, p, "shared"))
	cents(0, wayOf(t, p, "free tier"))
	require.Equal(t, "free tier", p.Ways[0].Way)
	// Manual: control and the chunks at 400 RU/s, the catalog at a tenth of 2,000, and heat at a tenth of 1,000.
	cents((400.0+400)/100*0.008*730+(200.0+100)/100*0.012*730+4*0.25, wayOf(t, p, "manual"))
	cents((400.0)/100*0.008*730+(100+200.0+100)/100*0.012*730+4*0.25, wayOf(t, p, "autoscale"))
	require.Equal(t, "a reservation is for a year or three, and the plan for less", wayOf(t, p, "shared, reserved").Why)

	// A fleet beyond the free tier pays what is beyond it: 1,000 RU/s and 25 GB. A year's reservation takes a fifth off.
	_, p = plan(t, "tenants=1", "growth=0", "months=12", "retention=30d", "fleets.pumps.devices=40000",
		"fleets.pumps.interval=1m", "fleets.pumps.late=0", "fleets.pumps.metrics={gauge: 10}", "queries=[]",
		"without=[serverless]")
	require.Equal(t, "the workload leaves it out", wayOf(t, p, "serverless").Why)
	gb := figureOf(t, p, "storage of a month")
	require.Greater(t, 2*gb, 26.0, "from the second month on")
	free, all := wayOf(t, p, "free tier"), wayOf(t, p, "shared")
	require.Equal(t, 400.0, p.Throughput.RUs)
	cents(all.P50-400.0/100*0.008*730-(gb+3+11*25)/12*0.25, free)
	cents(all.P50-0.2*400/100*0.008*730, wayOf(t, p, "shared, reserved"))
}

// A small fleet gets the offer that provision has for it, what costs less than Binnacle is said, and documents live as
// long as the workload keeps them.
func TestPlanOfASmallFleet(t *testing.T) {
	t.Parallel()
	small := []string{"tenants=1", "growth=0", "months=1", "retention=400d", "fleets.pumps.devices=30",
		"fleets.pumps.interval=10s", "queries.0.rate=0.01", "queries.1.rate=0.01", "queries.2.rate=0.001",
		"without=[free, serverless]"}
	_, p := plan(t, small...)
	require.Contains(t, p.Chosen, "provision --profile small")
	total := p.Bill[len(p.Bill)-1]
	require.InDelta(t, 400*0.00008*730+4*0.25, total.P50, 0.26, "400 RU/s that four or five containers share")
	require.Equal(t, 400.0, p.Throughput.RUs)
	require.Contains(t, p.Documents[0], `"ttl":34560000`)
	model, err := p.Model()
	require.NoError(t, err)
	for _, want := range []string{"which all containers of the database share", "## Availability and backup",
		"## What the sum leaves out", "## Isolation", "| one container for all time |", "cosmosdb-datamodeling.prompt.md"} {
		require.Contains(t, model, want)
	}
	var out bytes.Buffer
	require.NoError(t, p.Print(&out))
	require.NotContains(t, out.String(), "(24.4 to 24.4)")

	_, p = plan(t, append(small[:len(small)-1], "fleets.pumps.interval=1m")...)
	require.Equal(t, "free tier", p.Ways[0].Way)
	require.Contains(t, p.Chosen, "a free-tier account")
	require.Contains(t, p.TooMuch[0], "Cosmos DB is much for this")
	out.Reset()
	require.NoError(t, p.Print(&out))
	require.Regexp(t, `(?m)^Without Binnacle, a document per reading: \$\d`, out.String())

	_, p = plan(t, append(small, "fleets.pumps.interval=1h", "fleets.pumps.devices=3")...)
	require.Regexp(t, `^Binnacle is too much for this: documents of one reading cost \$\S+ a month in one container, `, p.TooMuch[1])
	require.Regexp(t, `From about \S+ devices like these on Binnacle costs less`, p.TooMuch[1])
	_, p = plan(t, append(small, "fleets.pumps.interval=3d")...)
	require.InEpsilon(t, 30/(3*86400.0), p.Figures[1].P50, 0.01, "readings a second")
	_, p = plan(t, "fleets.pumps.devices=3000000")
	require.Empty(t, p.TooMuch)
	require.NotContains(t, p.Chosen, "small")
	require.Equal(t, "manual, reserved", p.Ways[0].Way)
}

// What keeps tenants apart costs more the more there is of it, and the largest tenant draws from the pool.
func TestIsolation(t *testing.T) {
	t.Parallel()
	_, p := plan(t)
	require.Len(t, p.Isolation, 4)
	require.Zero(t, p.Isolation[0].More)
	for _, x := range p.Isolation[1:] {
		require.Positive(t, x.More, x.Way)
	}
	_, p = plan(t, "tenants={count: 2000, largest: 50%}", "fleets.pumps.devices=3000000", "queries=[]")
	require.Contains(t, p.Isolation[1].Note, "an account has 500 at most")
	require.Contains(t, p.Isolation[len(p.Isolation)-1].Note, "in 2 fleetspaces")
}

func TestBadWorkloads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ set, want string }{
		{"tenant=3", "field tenant not found"},
		{"tenants={counts: 3}", "field counts not found"},
		{"tenants.distribution=normal", "even and zipf are known"},
		{"retention=-3d", "retention: 1d to 7300d are allowed"},
		{"retention=3", "retention: it is a number, and a duration is wanted"},
		{"retention=3 fortnights", `"3 fortnights" is no number, percentage or duration`},
		{"growth=5%..1%", "does not ascend"},
		{"growth=1..5d", "from a number to a duration"},
		{"hold=1h..2h", "one value is wanted"},
		{"without=[autoscaling]", `"autoscaling" is none of free, serverless, shared, manual, autoscale, reserved`},
		{"months=0", "months: 1 to 120 are allowed"},
		{`name=""`, "name: it is missing"},
		{"fleets=[]", "at least one is wanted"},
		{"fleets.pumps.devices=0", "fleets[0].devices: 1 to 1,000,000,000 are allowed"},
		{"fleets.pumps.devices=[1, 2]", "an interval as low..high is wanted"},
		{"fleets.pumps.late=120%", "fleets[0].late: 0 % to 100 % are allowed"},
		{"fleets.pumps.metrics={pressure: 3}", "are known"},
		{"fleets.pumps.metrics={truck: 11}", "1 to 10 are allowed"},
		{"fleets.pumps.metrics={}", "either they or a sample are wanted"},
		{"fleets.pumps.interval=0", "fleets[0].interval: 10ms to 366d are allowed"},
		{"fleets.pumps.sample={file: x}", "file and device-tag are wanted"},
		{"queries.2.pattern=scan", `"scan" is none of latest, range and panel`},
		{"queries.1={pattern: range, rate: 1}", "queries[1].span: it is missing"},
		{"fleets.cars.devices=3", "the file has no cars"},
		{"months", "PATH=VALUE is wanted"},
	} {
		_, err := planner.Parse(workload, []string{c.set})
		require.ErrorContains(t, err, c.want, c.set)
	}
	_, err := planner.Parse([]byte("fleets: [{}]"), nil)
	require.ErrorContains(t, err, "fleets[0].devices: it is missing", "every fault is named")
	require.ErrorContains(t, err, "name: it is missing")
	_, err = planner.Parse([]byte(":"), nil)
	require.Error(t, err)
}

// Readings of a file are repeated until a day is full.
func TestPlanOfASample(t *testing.T) {
	t.Parallel()
	_, err := planner.Read("testdata/missing.yaml", nil)
	require.ErrorContains(t, err, "read the workload")
	w, err := planner.Read("testdata/sample.yaml", nil)
	require.NoError(t, err)
	p, err := planner.New(w, 1, 20)
	require.NoError(t, err)
	require.InEpsilon(t, 100/300.0, p.Figures[1].P50, 0.01, "100 devices, a reading every five minutes")
	require.InEpsilon(t, 200/300.0, p.Figures[2].P50, 0.01)
	require.True(t, strings.HasPrefix(p.Documents[0], "{"))

	w.Fleets[0].Sample.DeviceTag = "host"
	_, err = planner.New(w, 1, 20)
	require.ErrorContains(t, err, `has no device with two readings and the tag "host"`)
}
