package httpapi_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/query"
	"binnacle/query/httpapi"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// every are readings of m1 from some minutes before noon to before others, one every ten seconds.
func every(offset *int64, from, to int) (all []querytest.Record) {
	for at := noon.Add(time.Duration(-from) * time.Minute); at.Before(noon.Add(time.Duration(-to) * time.Minute)); {
		*offset++
		all = append(all, record(*offset, "m1", at, nil, float("temp", 1)))
		at = at.Add(10 * time.Second)
	}
	return all
}

// holes is an answer, a line for each gap: minutes before noon, how many, the verdict.
func holes(t *testing.T, a answer) (lines []string, complete bool) {
	t.Helper()
	require.Equal(t, 200, a.status, a.body)
	var got struct {
		Expect int64 `json:"expect_ms"`
		Gaps   []struct {
			From, To int64
			Missing  int
			Verdict  string
			Reason   string
			Arrived  int64
			Fix      string
		}
		Complete bool
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &got))
	require.EqualValues(t, 10_000, got.Expect)
	for _, g := range got.Gaps {
		minutes := func(ms int64) float64 { return time.Duration(noon.UnixMilli()-ms).Minutes() * 1e6 }
		lines = append(lines, fmt.Sprintf("%.1f %.1f %d %s%s", minutes(g.From), minutes(g.To), g.Missing, g.Verdict,
			g.Reason))
	}
	return lines, got.Complete
}

// A character for each hour of each device: there, not there, refused, not known.
func TestAttendance(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) { c.Rejected = refusals{} })
	offset := int64(0)
	s.world.Chunk(every(&offset, 6*60, 5*60)...)
	s.world.Chunk(every(&offset, 90, 59)...)
	a := s.get(t, "/api/v1/attendance?from=-8h&to=2026-11-20T13:00:00Z")
	require.Equal(t, 200, a.status, a.body)
	require.Contains(t, a.body, `"devices":[{"device":"m1","present":"--100r11-"}]`)
	require.Contains(t, a.body, `"step_ms":3600000`)
	require.NotContains(t, a.body, `"a reason"`)
	var whole struct {
		From    int64
		Devices []struct{ Device, Present string }
		Stats   struct{ Documents int }
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &whole))
	require.Len(t, whole.Devices, 1)
	s.world.Chunk(record(5000, `m"2`, noon.Add(-time.Hour), nil, float("temp", 1)))
	a = s.get(t, "/api/v1/attendance?from=-2h&to=now")
	require.NoError(t, json.Unmarshal([]byte(a.body), &whole), a.body)
	require.Equal(t, noon.Add(-2*time.Hour).UnixMilli(), whole.From)
	require.Len(t, whole.Devices, 2)
	require.Equal(t, `m"2`, whole.Devices[0].Device)
	require.Equal(t, "-1", whole.Devices[0].Present)
	require.Contains(t, a.body, `"a reason"]`, "dead letters are not known")
	require.Positive(t, whole.Stats.Documents)
	a = s.get(t, "/api/v1/attendance?prefix=nobody")
	require.NoError(t, json.Unmarshal([]byte(a.body), &whole), a.body)
	require.Empty(t, whole.Devices)
	for _, wrong := range []string{"step=25h", "step=1ns", "step=1ms", "from=now&to=-2h", "limit=0", "device=m1"} {
		require.Equal(t, 400, s.get(t, "/api/v1/attendance?"+wrong).status, wrong)
	}
}

// What is stored, in memory, came late, was refused and never came, and what a head has not read yet.
func TestGaps(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) { c.Rejected = refusals{} })
	offset := int64(0)
	s.world.Chunk(append(every(&offset, 60, 50), every(&offset, 40, 30)...)...)
	s.world.Chunk(every(&offset, 46, 44)...)
	open := every(&offset, 30, 10)
	for i := range open {
		if open[i].Time == noon.UnixMilli()-20*60_000 { // it was refused
			open = append(open[:i], open[i+1:]...)
			break
		}
	}
	s.world.Log.Set(1000)
	head := store.PartitionHead{Stream: 1, Position: 1000, CaughtUp: 500}
	s.world.Heads.Set(head, open...)
	got, complete := holes(t, s.get(t, "/api/v1/gaps?device=m1&from=-2h"))
	require.True(t, complete)
	require.Equal(t, []string{"50.2 46.0 24 never", "46.0 44.2 12 late", "44.2 40.0 24 never", "20.0 20.0 1 refusedlimit",
		"10.2 0.0 60 never"}, got)
	got, _ = holes(t, s.get(t, "/api/v1/gaps?device=m1&from=-15m&to=-9m&expect=10s"))
	require.Equal(t, []string{"10.2 9.0 6 never"}, got)

	a := s.get(t, "/api/v1/gaps?device=m9")
	require.Equal(t, 200, a.status)
	require.Contains(t, a.body, `"expect_ms":null`)
	require.Contains(t, a.body, `"gaps":[]`)
	for _, wrong := range []string{"", "device=a/b", "device=m1&expect=0s", "device=m1&from=-40d",
		"device=m1&from=now&to=-1h", "device=m1&device=m2", "device=m1&limit=1"} {
		a := s.get(t, "/api/v1/gaps?"+wrong)
		require.Equal(t, 400, a.status, wrong)
		parseProblem(t, a)
	}

	head.CaughtUp = 2000
	s.world.Heads.SetOnly(head, open...)
	got, complete = holes(t, s.get(t, "/api/v1/gaps?device=m1&from=-55m&to=-45m&timeout=2s"))
	require.False(t, complete)
	require.Equal(t, []string{"50.2 46.0 24 replaying", "46.0 44.2 12 late"}, got)
}

// A range that has not begun yet is empty, and has no gaps.
func TestGapsOfTheFuture(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) { c.Rejected = refusals{} })
	s.fill()
	for _, to := range []time.Duration{time.Hour, 2 * time.Hour} {
		a := s.get(t, fmt.Sprintf("/api/v1/gaps?device=m1&from=%d&to=%d", noon.Add(time.Hour).UnixMilli(),
			noon.Add(to).UnixMilli()))
		require.Equal(t, 200, a.status, a.body)
		at := noon.Add(time.Hour).UnixMilli()
		require.Contains(t, a.body, fmt.Sprintf(`"from":%d,"to":%d,`, at, at))
		require.Contains(t, a.body, `"gaps":[],"complete":true`)
	}
}
