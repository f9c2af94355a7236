package ru_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/ru"
)

const kb = 1024

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
	require.InDelta(t, 58.4, ru.DollarsPerMonth(1000, false), 1e-9)
	require.InDelta(t, 87.6, ru.DollarsPerMonth(1000, true), 1e-9)
	require.InDelta(t, 25, ru.StorageDollarsPerMonth(100), 1e-9)
}
