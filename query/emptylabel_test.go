package query_test

import (
	"fmt"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// emptyLabelRecord is a reading of m1 so many minutes after the model's start, with a label that has no value or
// without.
func emptyLabelRecord(offset int64, minute int, value float64, labelled bool) querytest.Record {
	r := record(offset, "m1", modelStart.Add(time.Duration(minute)*time.Minute), float("a", value))
	if labelled {
		r.Labels = telemetry.Labels{{Name: "axle"}}
	}
	return r
}

// What was stored with an empty label is of the series without it, in every shape of answer, whether chunks, one of
// them with both forms, or a head have it. Of an instant the later record counts, in whichever form.
func TestEmptyLabelIsNone(t *testing.T) {
	w := querytest.New(t, modelStart.Add(time.Hour))
	w.Chunk(emptyLabelRecord(0, 0, 1, true), emptyLabelRecord(1, 1, 2, true))
	w.Chunk(emptyLabelRecord(2, 2, 3, false), emptyLabelRecord(3, 1, 20, false), emptyLabelRecord(4, 3, 4, true))
	w.Chunk(emptyLabelRecord(5, 2, 30, true), emptyLabelRecord(6, 5, 6, true))
	w.Chunk(emptyLabelRecord(7, 20, 7, true), emptyLabelRecord(8, 21, 8, false), emptyLabelRecord(9, 22, 9, true))
	w.Heads.Set(head(0, 12, 12, 0), emptyLabelRecord(10, 30, 10, true), emptyLabelRecord(11, 31, 11, false))
	want := map[int]float64{0: 1, 1: 20, 2: 30, 3: 4, 5: 6, 20: 7, 21: 8, 22: 9, 30: 10, 31: 11}

	q := newQuerier(t, w, nil)
	r := query.Request{Tenant: "acme", Range: telemetry.Range{From: modelStart.UnixMilli(), To: w.Now.UnixMilli()}}
	rows, _ := ask(t, q, r)
	got, sum := map[int]float64{}, 0.0
	for _, row := range rows {
		require.Nil(t, row.Labels)
		require.Len(t, row.Values, 1)
		got[int(row.Time-modelStart.UnixMilli())/60_000] = row.Values[0].Value.Float()
		sum += row.Values[0].Value.Float()
	}
	require.Len(t, rows, len(want), "an instant is one row")
	require.Equal(t, want, got)

	curves := 0
	_, err := q.Series(t.Context(), r, func(c query.Curve) error {
		curves++
		require.Nil(t, c.Labels)
		n := 0
		for i := range c.Stretches {
			n += len(c.Stretches[i].Times)
		}
		require.Equal(t, len(want), n)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 1, curves)

	var all []query.Statistic
	_, err = q.Statistics(t.Context(), r, 0, func(s query.Statistic) error {
		all = append(all, s)
		return nil
	})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, int64(len(want)), int64(all[0].Count))
	require.Equal(t, telemetry.FloatValue(sum), all[0].Sum)

	var lasts []string
	for _, to := range []int{2, 3, 22, 23, 31, 32} {
		r.Range.To = modelStart.Add(time.Duration(to) * time.Minute).UnixMilli()
		_, err = q.Latest(t.Context(), r, func(l query.Last) error {
			lasts = append(lasts, fmt.Sprint(to, " ", l.Labels, " ", l.Value.Float()))
			return nil
		})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"2 [] 20", "3 [] 30", "22 [] 8", "23 [] 9", "31 [] 10", "32 [] 11"}, lasts)
}

// A chunk does not say which of its rows came later: of an instant that it has in both forms the one without counts, in
// all answers alike.
func TestEmptyLabelAtOneInstantOfAChunk(t *testing.T) {
	for _, labelledFirst := range []bool{true, false} {
		w := querytest.New(t, modelStart.Add(time.Hour))
		w.Chunk(emptyLabelRecord(0, 0, 5, !labelledFirst), emptyLabelRecord(1, 1, 1, labelledFirst),
			emptyLabelRecord(2, 1, 2, !labelledFirst), emptyLabelRecord(3, 1, 1, labelledFirst))
		without := 1.0
		if labelledFirst {
			without = 2
		}
		q := newQuerier(t, w, nil)
		r := query.Request{Tenant: "acme", Range: telemetry.Range{From: modelStart.UnixMilli(), To: w.Now.UnixMilli()}}
		rows, _ := ask(t, q, r)
		require.Len(t, rows, 2)
		require.Equal(t, telemetry.FloatValue(without), rows[1].Values[0].Value)
		_, err := q.Latest(t.Context(), r, func(l query.Last) error {
			require.Equal(t, telemetry.FloatValue(without), l.Value)
			return nil
		})
		require.NoError(t, err)
		var all []chunk.Stats
		_, err = q.Statistics(t.Context(), r, 0, func(s query.Statistic) error {
			all = append(all, s.Stats)
			return nil
		})
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, telemetry.FloatValue(without+5), all[0].Sum)
	}
}
