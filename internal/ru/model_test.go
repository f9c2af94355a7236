package ru_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/ru"
)

const kb = 1024

// Published charges, with the sizes and term counts that their sources give or that follow from the
// documents they name (docs/request-units.md).
func TestPublishedInserts(t *testing.T) {
	for _, c := range []struct {
		name   string
		bytes  int
		terms  int
		want   float64
		within map[ru.Model]float64
	}{
		{"1 KB, no index", kb, 0, 5, both(0.10)},
		{"1 KB, id and _ts", kb, 2, 5.5, both(0.10)},
		{"100 KB, no index", 100 * kb, 0, 50, map[ru.Model]float64{ru.Linear: 0.01}},
		{"6.3 KB product, all indexed", 6451, 131, 48.38, both(0.10)},
		{"6.3 KB product, two paths", 6451, 4, 8.38, both(0.10)},
		{"6.3 KB product, no index", 6451, 0, 7.05, both(0.10)},
		{"grain, 0.7 KB", 717, 4, 6.29, both(0.10)},
		{"like, five properties", 200, 6, 7.05, both(0.10)},
		{"user, two properties", 60, 3, 5.71, both(0.10)},
	} {
		for m, within := range c.within {
			t.Run(c.name+" "+m.String(), func(t *testing.T) {
				require.InEpsilon(t, c.want, m.Write(c.bytes, c.terms), within)
			})
		}
	}
}

func TestPublishedReads(t *testing.T) {
	require.InDelta(t, 1, ru.TableT.Read(kb), 1e-9)
	require.InDelta(t, 1, ru.Linear.Read(100), 1e-9)
	require.InDelta(t, 10, ru.Linear.Read(100*kb), 1e-9)
}

func TestPublishedQueries(t *testing.T) {
	for _, c := range []struct {
		name     string
		filtered bool
		docs     int
		bytes    int
		want     float64
	}{
		{"no match", true, 0, 0, 2.5},
		{"one document", true, 1, 500, 2.87},
		{"100 documents, ordered", true, 100, 700, 16.97},
		{"one document of 9,963 bytes", true, 1, 9963, 3.19},
		{"two ids", true, 2, 500, 3.06},
		{"five ids", true, 5, 500, 3.47},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ru.QueryWork{Filtered: c.filtered}
			for range c.docs {
				w.Add(c.bytes)
			}
			require.InEpsilon(t, c.want, ru.TableT.Query(w), 0.15)
		})
	}
}

func TestTableTAtAndBetweenItsRows(t *testing.T) {
	require.InDelta(t, 4.95, ru.TableT.Write(kb, 0), 1e-9)
	require.InDelta(t, 11.23, ru.TableT.Write(32*kb, 0), 1e-9)
	require.InDelta(t, 1250, ru.TableT.Write(2048*kb, 0), 1e-9)
	require.InDelta(t, (11.23+22.67)/2, ru.TableT.Write(48*kb, 0), 1e-9)
	require.InDelta(t, 2500, ru.TableT.Write(4096*kb, 0), 1e-9)
	require.InDelta(t, 4.95, ru.TableT.Write(0, 0), 1e-9)
}

func TestReplaceIsDeleteAndInsert(t *testing.T) {
	for _, m := range []ru.Model{ru.TableT, ru.Linear} {
		require.InDelta(t, m.Write(2*kb, 3)+m.Write(9*kb, 4), m.Replace(2*kb, 9*kb, 7), 1e-9)
		require.InDelta(t, m.Write(2*kb, 3), m.Delete(2*kb, 3), 1e-9)
	}
	require.InEpsilon(t, 10.29, ru.TableT.Replace(717, 717, 2), 0.05, "grain, one changed term")
}

func TestPartitions(t *testing.T) {
	for _, c := range []struct {
		rus       float64
		autoscale bool
		want      int
	}{{400, false, 1}, {6000, false, 1}, {6100, false, 2}, {150_000, false, 25}, {1000, true, 1}, {10_000, true, 1}, {11_000, true, 2}, {250_000, true, 25}} {
		require.Equal(t, c.want, ru.Partitions(c.rus, c.autoscale), "%v", c)
	}
}

func TestFloor(t *testing.T) {
	for _, c := range []struct {
		gb, highest float64
		autoscale   bool
		want        float64
	}{{0, 400, false, 400}, {0, 100_000, false, 1000}, {700, 400, false, 700}, {0, 4000, true, 1000}, {0, 100_000, true, 10_000}, {250, 1000, true, 3000}, {0, 65_000, false, 700}} {
		require.InDelta(t, c.want, ru.Floor(c.gb, c.highest, c.autoscale), 1e-9, "%v", c)
	}
}

func TestPrices(t *testing.T) {
	require.InDelta(t, 58.4, ru.DollarsPerMonth(1000, false), 1e-9)
	require.InDelta(t, 87.6, ru.DollarsPerMonth(1000, true), 1e-9)
	require.InDelta(t, 25, ru.StorageDollarsPerMonth(100), 1e-9)
}

func both(within float64) map[ru.Model]float64 {
	return map[ru.Model]float64{ru.TableT: within, ru.Linear: within}
}
