package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// The tenants of TestUpgrade, beside acme: producers publish for that one while ingesters are replaced.
const (
	// mixedTenant has epochs, a retention by device, erasures, and readings of earlier days and of today.
	mixedTenant = "fleet"
	// panelTenant has rollups of the day before yesterday.
	panelTenant = "panel"
	// bulkTenant has more open bins than there is memory.
	bulkTenant = "bulk"
	// loudTenant exceeds a limit, so that readings wait.
	loudTenant = "loud"
)

// loudReadings is how many readings of loudTenant are published.
const loudReadings = 400

// settings registers tenants and sets what may be set, by commands of the earlier release.
func (u *upgrade) settings() {
	u.placements()
	for _, tenant := range []string{panelTenant, bulkTenant, loudTenant} {
		u.command(before, "tenant", "add", tenant)
		u.tables[tenant] = table{}
	}
	u.tables[mixedTenant] = table{}
	u.command(before, "tenant", "set", mixedTenant, "--lookback=25m", "--display-name=The fleet",
		"--contact=fleet@acme.example", "--tag=plan=gold", "--query-rus-day=5e9", "--ingest-devices=500",
		"--averages=nearest")
	u.command(before, "tenant", "set", loudTenant, "--ingest-readings=1", "--ingest-burst=20s", "--query-samples=1000")
	u.command(before, "tenant", "pin", panelTenant, "--keep")
	u.token = strings.TrimSpace(u.command(before, "tenant", "token", "add", mixedTenant, "--expires=never",
		"--scopes=read,write"))
}

// placements writes the documents of a tenant with epochs of the past, which no command adds: as the earlier release
// has written them.
func (u *upgrade) placements() {
	client := storeClient(u.t, u.storeAt)
	defer client.Close()
	last := telemetry.DayOf(u.today)
	epoch := func(from telemetry.Day, slots int, heavy string) string {
		text, err := json.Marshal(sharding.Spread(mixedTenant, slots))
		require.NoError(u.t, err)
		return fmt.Sprintf(`{"from":%d,"slots":%s%s}`, from, text, heavy)
	}
	created := u.today - 100*telemetry.DayMillis
	documents := []store.Document{{Kind: "tenant", ID: mixedTenant, Body: fmt.Appendf(nil,
		`{"created":%d,"retentionSeconds":0,"epoch":%s}`, created, epoch(0, 4, ""))}}
	for i, e := range []struct {
		from  telemetry.Day
		heavy string
	}{
		{last - 31, ""},
		{last - 2, `,"heavy":{"m0":[3,77,140]},"dedicated":true`},
		{last, `,"heavy":{"m0":[1,2,3,200]}`},
	} {
		id := mixedTenant + "." + strings.ReplaceAll(e.from.String(), "-", "")
		documents = append(documents, store.Document{Kind: "epoch", ID: id, Body: fmt.Appendf(nil,
			`{"tenant":%q,"created":%d,"epoch":%s}`, mixedTenant, created, epoch(e.from, 5*(i+1), e.heavy))})
	}
	for _, d := range documents {
		_, err := client.Documents().Create(u.t.Context(), d)
		require.NoError(u.t, err)
	}
}

// mixed are readings of six devices of a name with values of each type, some of them with labels, from an instant on.
func mixed(name string, from int64) table {
	all, rnd := table{}, rand.New(rand.NewPCG(uint64(from), 7))
	for i := range int64(200) {
		r := row{device: fmt.Sprintf("%s%d", name, i%6), ts: from + i*100}
		if i%3 == 0 {
			r.labels = `{"axle":"rear"}`
		}
		all[r] = map[string]any{"x": randomFloat(rnd), "eighths": float64(rnd.IntN(8000)) / 8}
		if i%2 == 0 {
			all[r]["big"], all[r]["on"], all[r]["state"] = 1<<53+1+i, i%4 == 0, fmt.Sprintf("state %d, \"so\"\n", i%9)
		}
	}
	return all
}

// publish publishes a table of a tenant, which is answered from then on. A request takes a megabyte at most.
func (u *upgrade) publish(tenant string, all table) {
	var messages []kafka.Message
	for r, values := range all {
		m := message(tenant, r, values)
		site := []string{"oslo", "rome"}[int(r.device[len(r.device)-1])%2]
		m.Value = append([]byte(fmt.Sprintf(`{"tags":{"site":%q},`, site)), m.Value[1:]...)
		messages = append(messages, m)
	}
	for some := range slices.Chunk(messages, 500) {
		u.queriers[before].publish(some...)
	}
	u.tables[tenant] = both(u.tables[tenant], all)
}

// publishAll publishes readings of all tenants, and waits until they are answered: of earlier days from chunks, and of
// today from open bins.
func (u *upgrade) publishAll() {
	mixedOf := func(day int64) {
		for _, name := range []string{"m", "gone-", "erased-a", "erased-b"} {
			u.publish(mixedTenant, mixed(name, u.today-day*telemetry.DayMillis))
		}
	}
	for _, day := range []int64{2, 31, 75} {
		mixedOf(day)
	}
	u.publish(panelTenant, u.panelDay())
	u.answered(mixedTenant, panelTenant)
	u.queriers[before].stored(mixedTenant)
	u.queriers[before].stored(panelTenant)
	u.command(before, "tenant", "set", mixedTenant, "--retention=gone-*=30d,{site=oslo}=2y,default=forever")
	u.hides(func(r row) bool {
		return strings.HasPrefix(r.device, "gone-") && r.ts < u.today-30*telemetry.DayMillis
	})
	u.restartIngesters(before, "12h")
	mixedOf(0)
	u.publish(bulkTenant, u.texts())
	u.answered(mixedTenant, panelTenant, bulkTenant)
	u.exceed()
	u.annotate()
}

// answered waits for complete answers of all queriers about tenants, which have just what is published.
func (u *upgrade) answered(tenants ...string) {
	u.t.Helper()
	for of, q := range u.queriers {
		for _, tenant := range tenants {
			var got table
			soon(u.t, time.Minute, func() (complete bool) {
				got, complete = q.everythingOf(tenant)
				return complete
			}, "the release %s answers about all of %s", of, tenant)
			require.Len(u.t, got, len(u.tables[tenant]), "%s of the release %s", tenant, of)
			for r, values := range u.tables[tenant] {
				require.True(u.t, sameValues(values, got[r]), "%s of the release %s: %v is %v, want %v", tenant, of, r,
					got[r], values)
			}
		}
	}
}

// exceed publishes readings of a tenant over its limit: most of them wait.
func (u *upgrade) exceed() {
	var messages []kafka.Message
	for i := range int64(loudReadings) {
		r := row{device: "l0", ts: u.today + i}
		u.tables[loudTenant][r] = map[string]any{"v": float64(i)}
		messages = append(messages, message(loudTenant, r, u.tables[loudTenant][r]))
	}
	u.queriers[before].publish(messages...)
	soon(u.t, time.Minute, func() bool {
		got, complete := u.queriers[before].everythingOf(loudTenant)
		require.Less(u.t, len(got), loudReadings)
		return !complete && len(got) > 0
	}, "readings of a tenant over its limit wait")
}

// annotate adds an annotation, with a token.
func (u *upgrade) annotate() {
	post, err := http.NewRequest(http.MethodPost, "http://"+u.queriers[before].api+"/api/v1/annotations",
		strings.NewReader(fmt.Sprintf(`{"text":"firmware 7.2","tags":["deploy"],"time":%d}`, u.today)))
	require.NoError(u.t, err)
	post.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + u.token}}
	resp, err := http.DefaultClient.Do(post)
	require.NoError(u.t, err)
	require.NoError(u.t, resp.Body.Close())
	require.Less(u.t, resp.StatusCode, 300)
}

// panelDay are readings of eight devices of the day before yesterday, one in five minutes.
func (u *upgrade) panelDay() table {
	all, rnd := table{}, rand.New(rand.NewPCG(3, 7))
	for i := range int64(288) {
		for device := range 8 {
			r := row{device: fmt.Sprintf("p%d", device), ts: u.today - 2*telemetry.DayMillis + i*300_000,
				labels: fmt.Sprintf(`{"axle":%q}`, []string{"front", "rear"}[device%2])}
			all[r] = map[string]any{"load": float64(rnd.IntN(800)) / 8, "temp": float64(rnd.IntN(9000)) / 100,
				"km_total": i*10 + int64(rnd.IntN(10))}
		}
	}
	return all
}

// texts are readings of today that fill more memory than the ingesters have.
func (u *upgrade) texts() table {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"
	all, rnd := table{}, rand.New(rand.NewPCG(4, 7))
	text := make([]byte, 900)
	for i := range int64(64) {
		for device := range 500 {
			for at := range text {
				text[at] = letters[rnd.IntN(len(letters))]
			}
			all[row{device: fmt.Sprintf("b%d", device), ts: u.today + i*100}] = map[string]any{"text": string(text)}
		}
	}
	return all
}

// publishMore publishes readings of a name, today's and older ones, and checks that queriers of both releases answer
// all that the tenant has.
func (u *upgrade) publishMore(name string) {
	const tenant = "grows"
	for _, day := range []int64{0, 2} {
		u.publish(tenant, mixed(name+"-", u.today-day*telemetry.DayMillis))
	}
	u.answered(tenant)
}

// makeRollups runs the role of a release until panels are answered from rollups alone. What the role takes for the time
// of the service is ahead: else it would leave out chunks of the last five minutes.
func (u *upgrade) makeRollups(of string) {
	const ahead = 5*time.Minute + 2*time.Second
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: u.storeAt})
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Header.Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		return nil
	}
	server := httptest.NewServer(proxy)
	defer server.Close()
	role := startRelease(u.t, release(of), "BINNACLE_ROLLUP_HOLD=30m", "BINNACLE_ROLLUP_EVERY=100ms",
		"BINNACLE_ROLLUP_LATE_EVERY=100ms", "BINNACLE_ROLLUP_BUDGET=0",
		"BINNACLE_ROLLUP_WITHOUT=acme,fleet,bulk,loud,grows", "rollups",
		"--cosmos="+strings.TrimPrefix(server.URL, "http://"), "--admin=127.0.0.1:0")
	defer role.kill()
	for release := range u.queriers {
		soon(u.t, time.Minute, func() bool {
			u.launchQuerier(release) // one that has chunks in memory reads no rollups
			r := u.queriers[release].get(panelTenant, u.panelQuery("sum by (axle) (sum_over_time(load[1h]))"))
			defer func() { _ = r.Body.Close() }()
			source := r.Header.Get("X-Binnacle-Source")
			return !strings.Contains(source, "rollups=0,") && strings.Contains(source, "chunks=0, heads=0")
		}, "the querier of the release %s reads rollups of the release %s", release, of)
	}
}

// corrects publishes a late reading of a day with rollups. The role of a release makes a correction, and both releases
// answer with it.
func (u *upgrade) corrects(of string) {
	u.restartIngesters(of, "1s")
	// Rollups cover all that is stored within two seconds after they were made: their clock was ahead.
	time.Sleep(4 * time.Second)
	query := u.panelQuery(`sum(sum_over_time(load[1d]))`)
	load := func(q *dev) float64 {
		var answer struct {
			Data struct{ Result []struct{ Values [][2]any } }
		}
		require.NoError(u.t, json.Unmarshal([]byte(q.body(panelTenant, query)), &answer))
		values := answer.Data.Result[0].Values
		var sum float64
		_, err := fmt.Sscan(values[len(values)-1][1].(string), &sum)
		require.NoError(u.t, err)
		return sum
	}
	sum := load(u.queriers[before])
	late := row{device: "p0", ts: u.today - 2*telemetry.DayMillis + 7*3_600_000 + int64(len(u.tables[panelTenant])),
		labels: `{"axle":"front"}`}
	u.publish(panelTenant, table{late: {"load": 0.125}})
	u.answered(panelTenant)
	for name, q := range u.queriers {
		q.stored(panelTenant)
		require.InDelta(u.t, sum+0.125, load(q), 0, "release %s answers before the correction", name)
	}
	u.makeRollups(of)
	for name, q := range u.queriers {
		require.InDelta(u.t, sum+0.125, load(q), 0, "release %s answers with a correction of %s", name, of)
	}
}

// eraseDevices erases two devices by the earlier release. Of the one it sweeps chunks; provision ends before it can
// sweep those of the other.
func (u *upgrade) eraseDevices() {
	erase := func(device string) {
		p := runRelease(u.t, time.Minute, *upgradeFrom, append([]string{"tenant", "erase", mixedTenant,
			"--device=" + device, "--confirm=" + mixedTenant}, u.servers()...)...)
		require.Zero(u.t, p.code, p.stderr.String())
		u.hides(func(r row) bool { return r.device == device })
	}
	erase("erased-a0")
	soon(u.t, time.Minute, func() bool { return u.swept(before)["erased-a0"] > 0 }, "chunks are swept")
	u.members["provision"].kill()
	erase("erased-b0")
	u.answered(mixedTenant)
}

// hides waits until some readings are answered no more.
func (u *upgrade) hides(gone func(row) bool) {
	maps.DeleteFunc(u.tables[mixedTenant], func(r row, _ map[string]any) bool { return gone(r) })
	soon(u.t, time.Minute, func() bool {
		got, complete := u.queriers[before].everythingOf(mixedTenant)
		return complete && len(got) == len(u.tables[mixedTenant])
	}, "readings are hidden")
}

// swept returns how many chunks the first sweep of each order of erasure has changed, once it is over, by device.
func (u *upgrade) swept(of string) map[string]int {
	var orders []struct {
		Device string
		Sweep  struct{ Containers, Of, Chunks int }
	}
	printed := u.command(of, "tenant", "erasures", mixedTenant, "--json")
	require.NoError(u.t, json.Unmarshal([]byte(printed), &orders), printed)
	all := map[string]int{}
	for _, order := range orders {
		if order.Sweep.Containers == order.Sweep.Of {
			all[order.Device] = order.Sweep.Chunks
		}
	}
	return all
}

// sweeps waits until provision of this release has swept what the earlier one has left.
func (u *upgrade) sweeps() {
	require.Positive(u.t, u.swept(after)["erased-a0"])
	soon(u.t, time.Minute, func() bool { return u.swept(after)["erased-b0"] > 0 }, "chunks are swept")
}

// lifts lets the readings in that wait for a limit.
func (u *upgrade) lifts() {
	_, complete := u.queriers[after].everythingOf(loudTenant)
	require.False(u.t, complete, "they wait on")
	u.command(after, "tenant", "set", loudTenant, "--ingest-readings=none")
	u.answered(loudTenant)
}
