package emulator_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// overview asks for the page as a browser does, with a header and a query.
func overview(t testing.TB, h http.Handler, method, query, accept, remote string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8081/_emulator"+query, nil)
	r.RemoteAddr = remote
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

const loopback = "127.0.0.1:50000"

func TestOverview(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, PhysicalPartitions: 3})
	co := create(t, client(t, s), hierarchical("chunks & <co>"), 1200)
	for range 3 {
		spend(t, co, 1e9) // all of the partition's 400 RU, and the 429
		now.advance(7 * time.Second)
	}
	store(t, co, chunk{ID: "x", TenantShard: "s", Device: "d"})
	now.advance(time.Second)

	for _, form := range []struct{ query, accept string }{{"?format=json", ""}, {"", "application/json"}} {
		resp := overview(t, s, "GET", form.query, form.accept, loopback)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
		var got emulator.Overview
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
		require.Equal(t, s.Overview(), got)
	}
	got := s.Overview()
	require.Contains(t, got.Note, "modelled")
	require.Len(t, got.Containers, 1)
	c := got.Containers[0]
	require.Equal(t, "db", c.Database)
	require.EqualValues(t, 1, c.Items)
	require.EqualValues(t, 3, c.Throttled)
	require.InDelta(t, 1200, c.Throughput.RUs, 1e-9)
	require.InDelta(t, 1220, c.LastMinute, 30)
	require.InDelta(t, 10, c.LastSecond, 5)
	require.Len(t, c.Partitions, 3)
	hot := 0
	for _, p := range c.Partitions {
		require.InDelta(t, 400, p.Budget, 1e-9)
		require.Len(t, p.Heat, 120)
		require.Len(t, p.Refused, 120)
		if p.Requests == 0 {
			require.Equal(t, make([]float64, 120), p.Heat)
			continue
		}
		hot++
		// The seconds 0, 7, 14 and 21 of the minute, seen at 22: cells begin at multiples of five.
		want := map[int]int{119 - 4: 1, 119 - 3: 1, 119 - 2: 1}
		for i, share := range p.Heat {
			require.Equal(t, want[i], p.Refused[i], "cell %d", i)
			switch {
			case want[i] > 0:
				require.InDelta(t, 1, share, 0.05)
			case i == 119:
				require.InDelta(t, c.LastSecond/400, share, 0.001)
			default:
				require.Zero(t, share, "cell %d", i)
			}
		}
	}
	require.Equal(t, 1, hot)

	// After ten minutes the bar is empty again.
	now.advance(11 * time.Minute)
	for _, p := range s.Overview().Containers[0].Partitions {
		require.Equal(t, make([]float64, 120), p.Heat)
		require.Zero(t, p.LastMinute)
	}
}

func TestOverviewPage(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, PhysicalPartitions: 3})
	resp := overview(t, s, "GET", "", "text/html", loopback)
	require.Equal(t, 200, resp.StatusCode)
	empty, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(empty), "no containers yet")

	co := create(t, client(t, s), hierarchical("a & <b>"), 1200)
	spend(t, co, 1e9)
	now.advance(time.Second)
	resp = overview(t, s.RoutingGateway(), "GET", "", "text/html", loopback)
	require.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	page := string(raw)
	require.Contains(t, page, "request units are modelled")
	require.Contains(t, page, "a &amp; &lt;b&gt;")
	require.Contains(t, page, "<b>1,200 RU/s</b> manual")
	require.Contains(t, page, "1 answered 429")
	require.NotRegexp(t, `(src|href)="(https?:)?//`, page, "nothing comes from elsewhere")
	bars := regexp.MustCompile(`(?s)<span class="bar">(.*?)</span>`).FindAllStringSubmatch(page, -1)
	require.Len(t, bars, 3)
	hot := 0
	for _, bar := range bars {
		require.Equal(t, 120, strings.Count(bar[1], "<i "))
		hot += strings.Count(bar[1], `class="h5 t" title="0 s ago: 10`)
	}
	require.Equal(t, 1, hot)
}

func TestOverviewIsForThisMachine(t *testing.T) {
	s := open(t, emulator.Config{})
	for _, c := range []struct {
		method, remote string
		want           int
	}{
		{"GET", loopback, 200}, {"HEAD", loopback, 200}, {"GET", "[::1]:50000", 200}, {"GET", "[::ffff:127.0.0.1]:5", 200},
		{"GET", "", 200},
		{"POST", loopback, 405}, {"GET", "192.0.2.1:50000", 403}, {"GET", "nonsense", 403},
	} {
		require.Equal(t, c.want, overview(t, s, c.method, "", "", c.remote).StatusCode, "%v", c)
	}
}
