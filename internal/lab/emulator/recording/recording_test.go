package recording_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator/recording"
)

func TestReadsWhatIsWritten(t *testing.T) {
	var file bytes.Buffer
	w := recording.NewWriter(&file)
	want := []recording.Exchange{
		{Kind: "create", Method: "POST", Path: "dbs/d/colls/c/docs", Status: 201, RU: 6.67},
		{Kind: "query", Method: "POST", Path: "dbs/d/colls/c/docs", Query: "SELECT * FROM c WHERE c.a < @a", Status: 429,
			Substatus: 3200, RU: 0.38},
	}
	for _, e := range want {
		w.Add(e)
	}
	require.NoError(t, w.Err())
	require.Contains(t, file.String(), " < @a", "texts are to be read by persons")
	got, err := recording.Read(&file)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, text := range []string{"no JSON", `{"kind":"read"}`, `{"status":200}`} {
		_, err := recording.Read(strings.NewReader(file.String() + `{"kind":"read","status":200}` + "\n" + text))
		require.ErrorContains(t, err, "line 2", text)
	}
}

func TestAlike(t *testing.T) {
	for name, want := range map[string]string{
		"orders": "orders", "orders-2026-11": "orders-#-#", "t9d0c9b6e90f48e4": "t#",
		"db-5f0c3c5e-09ab-4d3e-8d7a-1234567890ab-x": "db-#-x", "facade": "facade",
	} {
		require.Equal(t, want, recording.Alike(name), name)
	}
	require.Equal(t, "SELECT * FROM c WHERE c.n > #", recording.AlikeText("SELECT *\n  FROM c\nWHERE c.n > 12"))
}

func exchanges(kind, path string, n int, ru float64) []recording.Exchange {
	out := make([]recording.Exchange, n)
	for i := range out {
		out[i] = recording.Exchange{Kind: kind, Method: "POST", Path: path, Status: 200, RU: ru}
	}
	return out
}

func TestDiff(t *testing.T) {
	before := append(exchanges("create", "a", 10, 6), exchanges("query", "a", 2, 3)...)
	names := func(costs []recording.Cost) (out []string) {
		for _, c := range costs {
			out = append(out, c.Name)
		}
		return out
	}
	with := func(create, query float64) []recording.Exchange {
		return append(exchanges("create", "a", 10, create), exchanges("query", "a", 2, query)...)
	}
	for name, c := range map[string]struct {
		after []recording.Exchange
		want  []string
	}{
		"the same":                  {before, nil},
		"dearer":                    {with(6.5, 3), []string{"all", "create POST a 200"}},
		"dearer, within":            {with(6.2, 3), nil},
		"one dearer, all within":    {with(6, 4), []string{"query POST a 200"}},
		"more requests":             {append(with(6, 3), exchanges("create", "a", 2, 6)...), []string{"all"}},
		"others instead, as cheap":  {append(exchanges("upsert", "a", 10, 6), exchanges("query", "a", 2, 3)...), nil},
		"cheaper":                   {exchanges("create", "a", 10, 5), nil},
		"less than charges can say": {with(6, 3.009), nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := recording.Diff(before, c.after, 5)
			require.Equal(t, c.want, names(d.Regressions))
			require.Equal(t, 66.0, d.All.Before.RU)
		})
	}
	d := recording.Diff(before, exchanges("create", "b", 3, 22), 5)
	require.Equal(t, []string{"create", "query"}, names(d.Kinds))
	require.Equal(t, []string{"create POST b 200", "query POST a 200", "create POST a 200"}, names(d.Requests))
	require.Empty(t, recording.Diff(before, before, 0).Requests, "what is the same is not listed")
}
