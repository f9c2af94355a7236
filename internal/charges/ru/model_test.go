package ru_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/charges/ru"
)

const kb = 1024

// Charges of writes are whole units, to the hundredth what was recorded of an account.
func TestWritesAreChargedInUnits(t *testing.T) {
	for _, c := range []struct{ modelled, recorded float64 }{
		{ru.Stepped.Write(35, 4*ru.Scalar), 6.67}, {ru.Stepped.Write(325, 14*ru.Scalar), 10.48},
		{ru.Stepped.Write(0, ru.NoIndex), 4.95}, {ru.Stepped.Write(96, 8*ru.Scalar+5), 9.14},
		{ru.Stepped.Replace(35, 37, 2), 10.67}, {ru.Stepped.Replace(35, 34, 4), 11.05},
		{ru.Stepped.Replace(35, 34, 4) + ru.Stepped.Patch(3), 11.42}, {ru.Stepped.Delete(35, 4*ru.Scalar), 6.67},
		{100 * ru.Stepped.Write(60, 5*ru.Scalar), 704.76},
		{ru.Refused, 1.24}, {ru.Exists, 1.48}, {ru.Throttled, 0.38}, {ru.MetadataChange, 4.95},
		{ru.Stepped.Query(ru.QueryWork{}), 2.25}, {ru.Stepped.Query(ru.QueryWork{Docs: 1000, Columns: 1}), 15.24},
		{ru.Stepped.Query(ru.QueryWork{Docs: 1000, Columns: 2}), 17.16}, {ru.Stepped.Query(ru.QueryWork{Docs: 2500}), 38.14},
		{ru.Stepped.Query(ru.QueryWork{Seeks: 1}), 2.8}, {ru.Stepped.Query(ru.QueryWork{Seeks: 1, Docs: 1, Columns: 1}),
			2.82},
		{ru.Stepped.Query(ru.QueryWork{Counted: true}), 2.89}, {ru.Stepped.Feed(ru.QueryWork{Docs: 1}), 1},
	} {
		require.InDelta(t, c.recorded, ru.Shown(c.modelled), 1e-9)
	}
}

// Both models agree at the rows of the table of sizes. Between them one charges the next row, the other whole units on
// the line to it.
func TestSizesAtAndBetweenTheRows(t *testing.T) {
	for _, m := range []ru.Model{ru.Stepped, ru.Sloped} {
		require.InDelta(t, 59*ru.Unit, m.Write(32*kb, ru.NoIndex), 1e-9)
		require.InDelta(t, 100.0/21, m.Read(64*kb), 1e-9)
		require.InDelta(t, 37*ru.Unit, m.Write(6451, ru.NoIndex), 1e-9, "a published document of 6.3 KB: 7.05 RU")
		require.InDelta(t, 2*6562*ru.Unit, m.Write(4096*kb, ru.NoIndex), 1e-9)
		require.InDelta(t, m.Write(2*kb, 0)+m.Write(9*kb, 4), m.Replace(2*kb, 9*kb, 4), 1e-9)
	}
	require.InDelta(t, 119*ru.Unit, ru.Stepped.Write(36*kb, ru.NoIndex), 1e-9)
	require.InDelta(t, 67*ru.Unit, ru.Sloped.Write(36*kb, ru.NoIndex), 1e-9)
	require.InDelta(t, 100.0/21, ru.Stepped.Read(36*kb), 1e-9)
	require.InDelta(t, 53.0/21, ru.Sloped.Read(36*kb), 1e-9)
}

func TestPartitions(t *testing.T) {
	for _, c := range []struct {
		rus       float64
		autoscale bool
		want      int
	}{{400, false, 1}, {6000, false, 1}, {6100, false, 2}, {150_000, false, 25}, {1000, true, 1}, {10_000, true, 1},
		{11_000, true, 2}, {250_000, true, 25}} {
		require.Equal(t, c.want, ru.Partitions(c.rus, c.autoscale), "%v", c)
	}
}

func TestFloor(t *testing.T) {
	for _, c := range []struct {
		gb, highest float64
		autoscale   bool
		want        float64
	}{{0, 400, false, 400}, {0, 100_000, false, 1000}, {700, 400, false, 700}, {0, 4000, true, 1000},
		{0, 100_000, true, 10_000}, {250, 1000, true, 3000}, {0, 65_000, false, 700}} {
		require.InDelta(t, c.want, ru.Floor(c.gb, c.highest, c.autoscale), 1e-9, "%v", c)
	}
}

func TestPrices(t *testing.T) {
	for _, c := range []struct {
		of          ru.Priced
		least, most float64
	}{
		{ru.Priced{RUs: 1000}, 58.4, 58.4},
		{ru.Priced{RUs: 1000, Autoscale: true}, 8.76, 87.6},
		{ru.Priced{RUs: 1000, Autoscale: true, Container: true}, 9.01, 87.85},
		{ru.Priced{Container: true}, 0.25, 0.25},
		{ru.Priced{Container: true, GB: 100}, 25, 25},
	} {
		b := ru.Price(c.of)
		require.InDelta(t, c.least, b.Least, 1e-9, "%+v", c.of)
		require.InDelta(t, c.most, b.Most, 1e-9, "%+v", c.of)
	}
	both := ru.Price(ru.Priced{RUs: 400}, ru.Priced{RUs: 1000, Autoscale: true})
	require.InDelta(t, 32.12, both.Least, 1e-9)
	require.InDelta(t, 110.96, both.Most, 1e-9)
}
