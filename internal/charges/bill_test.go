package charges_test

import (
	"bytes"
	"encoding/csv"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/charges/ru"

	"github.com/stretchr/testify/require"
)

var november = charges.Month{Year: 2026, Month: time.November}

// hours returns so many hours of the same containers.
func hours(n int, all ...charges.Container) (out []charges.Hour) {
	for i := range n {
		out = append(out, charges.Hour{From: november.Begin().Add(time.Duration(i) * time.Hour).UnixMilli(), Containers: all})
	}
	return out
}

// amounts returns what was counted, as the sum of documents.
func amounts(rows map[charges.Key]charges.Amount) *charges.Sum {
	s := charges.NewSum()
	s.Rows = rows
	return s
}

// The rules, by numbers that can be checked by hand: a month has 720 hours; 4,000 RU/s cost $0.32 an hour.
func TestBill(t *testing.T) {
	// A request unit of manual throughput costs $0.008 / 360,000. One tenant uses a tenth of its container, so that
	// usage is a tenth of what the container costs.
	const used = 4000 * 3600 * 720 / 10
	b := charges.NewBill(charges.BillInput{Month: november,
		Sum: amounts(map[charges.Key]charges.Amount{
			{Tenant: "acme", Container: "chunks", Kind: charges.Chunks}:    {RUs: used * 3 / 4},
			{Tenant: "globex", Container: "chunks", Kind: charges.Queries}: {RUs: used / 4},
			{Container: "control", Kind: charges.Control}:                  {RUs: 3600 * 400 * 72},
		}),
		Hours: hours(720, charges.Container{Name: "chunks", RUs: 4000, GB: 100}, charges.Container{Name: "control", RUs: 400},
			charges.Container{Name: "old", RUs: 400, GB: 73}),
		Bytes: map[string]map[string]int64{"chunks": {"acme": 500, "globex": 1500}, "old": {"gone": 7}},
	})
	acme, globex, gone := tenantOf(t, b, "acme").Dollars, tenantOf(t, b, "globex").Dollars, tenantOf(t, b, "gone").Dollars
	throughput := 0.32 * 720
	require.InDelta(t, throughput/10*3/4, acme.Usage, 1e-3)
	require.InDelta(t, throughput*9/10*3/4, acme.Idle, 1e-3)
	require.InDelta(t, throughput/10/4, globex.Usage, 1e-3)
	stored := 100 * ru.StoragePerGB * 720 / ru.HoursPerMonth
	require.InDelta(t, stored/4, acme.Storage, 1e-3)
	require.InDelta(t, stored*3/4, globex.Storage, 1e-3)
	require.InDelta(t, 75, tenantOf(t, b, "globex").GBMonths, 1e-6)
	require.Equal(t, []charges.Stored{{Container: "chunks", Data: 2e-6, Index: 74.999999,
		Dollars: math.Round(stored*3/4*1e4) / 1e4, LeastRUs: 400}}, tenantOf(t, b, "globex").Stored)
	// What control costs and nobody used is everybody's, by RU; and so is its GB.
	control := 0.032*720*9/10 + ru.StoragePerGB*720/ru.HoursPerMonth
	require.InDelta(t, control*3/4, acme.Floors, 1e-3)
	require.InDelta(t, 0.032*720/10, b.Nobody.Dollars.Usage, 1e-3)
	// A container without requests is for those that have stored there.
	require.InDelta(t, 0.032*720, gone.Idle, 1e-3)
	require.Zero(t, gone.Floors)
	require.InDelta(t, throughput+2*0.032*720+stored+(1+73)*ru.StoragePerGB*720/ru.HoursPerMonth, b.Dollars, 1e-2)
	require.Nil(t, b.Store)
}

func tenantOf(t *testing.T, b *charges.Bill, name string) charges.TenantBill {
	for _, x := range b.Tenants {
		if x.Tenant == name {
			return x
		}
	}
	t.Fatalf("no bill of %s", name)
	return charges.TenantBill{}
}

// In a serverless account request units are paid for, and nothing is idle; in the month in which it becomes provisioned
// by the part of the hours.
func TestServerlessBill(t *testing.T) {
	rows := amounts(map[charges.Key]charges.Amount{
		{Tenant: "acme", Container: "chunks", Kind: charges.Chunks}: {RUs: 1_600_000},
		{Container: "chunks", Kind: charges.Rollups}:                {RUs: 400_000},
	})
	paid := charges.Container{Name: "chunks", Serverless: true, GB: 1}
	b := charges.NewBill(charges.BillInput{Month: november, Sum: rows, Hours: hours(720, paid),
		Bytes: map[string]map[string]int64{"chunks": {"acme": 500}}})
	require.Zero(t, tenantOf(t, b, "acme").Stored[0].LeastRUs)
	require.InDelta(t, 0.40, tenantOf(t, b, "acme").Dollars.Usage, 1e-9)
	require.InDelta(t, 0.10, b.Nobody.Dollars.Usage, 1e-9)
	require.Zero(t, tenantOf(t, b, "acme").Dollars.Idle)
	require.InDelta(t, 0.50, b.Billed[0].Throughput, 1e-9)
	bought := hours(360, charges.Container{Name: "chunks", RUs: 400})
	b = charges.NewBill(charges.BillInput{Month: november, Sum: rows, Hours: append(hours(360, paid), bought...)})
	require.InDelta(t, 0.25+0.032*360, b.Billed[0].Throughput, 1e-9)
}

func TestAutoscaleHours(t *testing.T) {
	c := charges.Container{RUs: 4000, Autoscale: true}
	require.InDelta(t, 4*0.012, c.Throughput(), 1e-9)
	c.Busiest = 1000
	require.InDelta(t, 10*0.012, c.Throughput(), 1e-9)
	c.Busiest = 9000
	require.InDelta(t, 40*0.012, c.Throughput(), 1e-9)
}

// Whatever was counted and paid for, the bills of tenants and of nobody add up to what containers cost, and nobody pays
// less than nothing.
func TestBillsAddUp(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	names := []string{"", "a", "b", "c"}
	for range 300 {
		rows, stored := map[charges.Key]charges.Amount{}, map[string]map[string]int64{}
		var all []charges.Container
		for i := range rng.IntN(5) {
			c := charges.Container{Name: strconv.Itoa(i), RUs: float64(rng.IntN(5) * 400), Autoscale: rng.IntN(2) == 0,
				GB: float64(rng.IntN(3)), Busiest: float64(rng.IntN(3000)), Database: i == 4}
			all = append(all, c)
			stored[c.Name] = map[string]int64{}
			for _, name := range names {
				if rng.IntN(2) == 0 {
					rows[charges.Key{Tenant: name, Container: c.Name, Kind: charges.Chunks}] =
						charges.Amount{RUs: rng.Float64() * 1e7}
				}
				if name != "" && rng.IntN(2) == 0 {
					stored[c.Name][name] = int64(rng.IntN(1e6))
				}
			}
		}
		charged := 1e7
		b := charges.NewBill(charges.BillInput{Month: november, Sum: amounts(rows), Hours: hours(rng.IntN(4), all...),
			Present: all, PresentHours: float64(rng.IntN(2)), Bytes: stored, Charged: &charged})
		want := 0.0
		for _, c := range b.Billed {
			want += c.Throughput + c.Storage
			require.LessOrEqual(t, c.Used, c.Throughput+1e-4)
		}
		got := b.Nobody.Dollars.Total
		for _, x := range b.Tenants {
			got += x.Dollars.Total
			require.GreaterOrEqual(t, min(x.Dollars.Usage, x.Dollars.Idle, x.Dollars.Floors, x.Dollars.Storage), 0.0)
		}
		require.InDelta(t, want, got, 0.01)
		require.InDelta(t, want, b.Dollars, 0.01)
		require.InDelta(t, b.Store.Charged, b.Store.Counted+b.Store.Unattributed, 0.02)
	}
}

var focusCSV = flag.String("focus.csv", "", "file that TestFOCUS writes its bill to, for the validator (make focus-it)")

// Each row is a part of a tenant's bill: its price by its quantity is its cost, and all add up.
func TestFOCUS(t *testing.T) {
	b := charges.NewBill(charges.BillInput{Month: november,
		Sum: amounts(map[charges.Key]charges.Amount{
			{Tenant: "acme", Container: "chunks", Kind: charges.Chunks}: {RUs: 1e6},
			{Container: "chunks", Kind: charges.Control}:                {RUs: 1e6}}),
		Hours: hours(10, charges.Container{Name: "chunks", RUs: 4000, GB: 100}),
		Bytes: map[string]map[string]int64{"chunks": {"acme": 1}},
	})
	var out bytes.Buffer
	require.NoError(t, charges.WriteFOCUS(&out, b, november))
	if *focusCSV != "" {
		require.NoError(t, os.WriteFile(*focusCSV, out.Bytes(), 0o600))
	}
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+3+1)
	sum := 0.0
	for _, row := range rows[1:] {
		by := map[string]string{}
		for i, name := range rows[0] {
			by[name] = row[i]
		}
		require.Equal(t, "2026-11-01T00:00:00Z", by["BillingPeriodStart"])
		require.Equal(t, "2026-12-01T00:00:00Z", by["ChargePeriodEnd"])
		cost, err := strconv.ParseFloat(by["BilledCost"], 64)
		require.NoError(t, err)
		quantity, err := strconv.ParseFloat(by["PricingQuantity"], 64)
		require.NoError(t, err)
		price, err := strconv.ParseFloat(by["ListUnitPrice"], 64)
		require.NoError(t, err)
		require.InDelta(t, cost, quantity*price, 1e-9)
		sum += cost
	}
	require.InDelta(t, b.Dollars, sum, 1e-3)
}
