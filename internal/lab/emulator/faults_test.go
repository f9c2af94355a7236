package emulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/emulator/fault"
)

// doors are the ways to a Server: in process, and over TCP.
var doors = map[string]func(t *testing.T, s *emulator.Server) *azcosmos.Client{
	"in process": func(t *testing.T, s *emulator.Server) *azcosmos.Client { return client(t, s) },
	"over TCP": func(t *testing.T, s *emulator.Server) *azcosmos.Client {
		l := httptest.NewServer(s)
		t.Cleanup(l.Close)
		cred, err := azcosmos.NewKeyCredential(emulator.Key)
		require.NoError(t, err)
		transport := &http.Transport{DisableKeepAlives: true} // net/http sends again what a kept connection lost
		t.Cleanup(transport.CloseIdleConnections)
		c, err := azcosmos.NewClientWithKey(l.URL, cred, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
			Transport: &http.Client{Transport: transport}, Retry: policy.RetryOptions{MaxRetries: -1},
		}})
		require.NoError(t, err)
		return c
	},
}

// write is a write of the item "x" of a key, and what there is afterwards when it was done: "" for nothing.
type write struct {
	operation string
	do        func(ctx context.Context, co *azcosmos.ContainerClient) error
	done      string
}

func writes(t *testing.T) []write {
	pk := key("s", "d")
	body := encode(t, chunk{ID: "x", TenantShard: "s", Device: "d", Data: "new"})
	var patch azcosmos.PatchOperations
	patch.AppendSet("/data", "new")
	return []write{
		{fault.Upsert, func(ctx context.Context, co *azcosmos.ContainerClient) error {
			_, err := co.UpsertItem(ctx, pk, body, nil)
			return err
		}, "new"},
		{fault.Replace, func(ctx context.Context, co *azcosmos.ContainerClient) error {
			_, err := co.ReplaceItem(ctx, pk, "x", body, nil)
			return err
		}, "new"},
		{fault.Patch, func(ctx context.Context, co *azcosmos.ContainerClient) error {
			_, err := co.PatchItem(ctx, pk, "x", patch, nil)
			return err
		}, "new"},
		{fault.Delete, func(ctx context.Context, co *azcosmos.ContainerClient) error {
			_, err := co.DeleteItem(ctx, pk, "x", nil)
			return err
		}, ""},
		{fault.Batch, func(ctx context.Context, co *azcosmos.ContainerClient) error {
			b := co.NewTransactionalBatch(pk)
			b.ReplaceItem("x", body, nil)
			_, err := co.ExecuteTransactionalBatch(ctx, b, nil)
			return err
		}, "new"},
	}
}

// dataOf is the data of the item "x", "" without one.
func dataOf(t *testing.T, co *azcosmos.ContainerClient) string {
	t.Helper()
	resp, err := co.ReadItem(context.Background(), key("s", "d"), "x", nil)
	if code(err) == 404 {
		return ""
	}
	require.NoError(t, err)
	var c chunk
	require.NoError(t, json.Unmarshal(resp.Value, &c))
	return c.Data
}

// hits waits until the first rule has hit a request.
func hits(s *emulator.Server) {
	for s.Faults().State().Rules[0].Hits == 0 {
		runtime.Gosched()
	}
}

// spentOf is what the first physical partition was charged.
func spentOf(t *testing.T, s *emulator.Server) float64 {
	parts, err := s.Partitions("db", "chunks")
	if err != nil {
		t.Error(err)
		return -1
	}
	return parts[0].RUs
}

// Every write, with every way to fail, done and not done: the answer says nothing of what was done, the store does.
func TestAppliedAndNotApplied(t *testing.T) {
	for door, open := range doors {
		for _, w := range writes(t) {
			for name, rule := range map[string]fault.Rule{
				"503": {Status: 503}, "408": {Status: 408}, "449": {Status: 449}, "500": {Status: 500},
				"429": {Status: 429, Substatus: 3200, RetryAfterMs: 7}, "a lost connection": {Drop: true}, "silence": {Hang: true},
			} {
				for _, applied := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%s/%v", door, w.operation, name, applied), func(t *testing.T) {
						t.Parallel()
						r := rule // its own: they run beside each other
						r.Operations, r.Count, r.Applied = []string{w.operation}, 1, applied
						fails(t, open, w, r)
					})
				}
			}
		}
	}
}

func fails(t *testing.T, door func(*testing.T, *emulator.Server) *azcosmos.Client, w write, rule fault.Rule) {
	s := open(t, emulator.Config{Unlimited: true, PhysicalPartitions: 1})
	co := create(t, door(t, s), hierarchical("chunks"), 400)
	store(t, co, chunk{ID: "x", TenantShard: "s", Device: "d", Data: "old"})
	require.NoError(t, s.Faults().Replace(1, rule))
	s.ResetStats()

	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	if rule.Hang {
		go func() {
			defer giveUp()
			hits(s)
			for rule.Applied && spentOf(t, s) == 0 {
				runtime.Gosched()
			}
		}()
	}
	err := w.do(ctx, co)
	switch {
	case rule.Hang:
		require.ErrorIs(t, err, context.Canceled)
	case rule.Drop:
		require.Error(t, err)
		require.Zero(t, code(err), "%v", err)
		var lost net.Error
		require.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &lost), "%v", err)
	case rule.Status == 429:
		substatus, wait := refusal(t, err)
		require.Equal(t, "3200", substatus)
		require.Equal(t, 7*time.Millisecond, wait)
	default:
		require.Equal(t, rule.Status, code(err), "%v", err)
	}
	require.Equal(t, rule.Applied, spentOf(t, s) > 0, "what is done is charged, what is not done is not")
	want := "old"
	if rule.Applied {
		want = w.done
	}
	require.Equal(t, want, dataOf(t, co))
}

// A create that was done and not acknowledged meets itself.
func TestACreateThatWasDoneIsAConflictLater(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	require.NoError(t, s.Faults().Replace(1,
		fault.Rule{Operations: []string{fault.Create}, Count: 1, Status: 408},
		fault.Rule{Operations: []string{fault.Create}, Count: 1, Status: 408, Applied: true},
	))
	body := encode(t, chunk{ID: "x", TenantShard: "s", Device: "d"})
	for i, want := range []int{408, 408, 409} {
		_, err := co.CreateItem(context.Background(), key("s", "d"), body, nil)
		require.Equal(t, want, code(err), i)
	}
}

// The second page of a query fails, and goes on where it was when it is asked again; other containers are well.
func TestAPageOfAQueryFails(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	c := client(t, s)
	co, other := create(t, c, hierarchical("chunks"), 400), create(t, c, hierarchical("control"), 400)
	for i := range 6 {
		for _, in := range []*azcosmos.ContainerClient{co, other} {
			store(t, in, chunk{ID: fmt.Sprint(i), TenantShard: "s", Device: "d"})
		}
	}
	require.NoError(t, s.Faults().Replace(1, fault.Rule{
		Operations: []string{fault.Query}, Container: "chunks*", Skip: 1, Count: 2, Status: 429, Substatus: 3200,
	}))
	rows, _, _ := query(t, other, key("s", "d"), "SELECT * FROM c", 2)
	require.Len(t, rows, 6)
	found, failed := 0, 0
	opts := &azcosmos.QueryOptions{PageSizeHint: 2}
	for first := true; first || opts.ContinuationToken != nil; first = false {
		page, err := co.NewQueryItemsPager("SELECT * FROM c", key("s", "d"), opts).NextPage(context.Background())
		if err != nil {
			require.Equal(t, 429, code(err))
			failed++
			continue
		}
		found += len(page.Items)
		opts.ContinuationToken = page.ContinuationToken
	}
	require.Equal(t, 2, failed)
	require.Equal(t, 6, found)
}

// Late answers: the write is done before the wait when the rule says so, and after it otherwise.
func TestLatency(t *testing.T) {
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprint("applied ", applied), func(t *testing.T) {
			s := open(t, emulator.Config{Unlimited: true})
			co := create(t, client(t, s), hierarchical("chunks"), 400)
			const hour = 3_600_000
			require.NoError(t, s.Faults().Replace(1, fault.Rule{Operations: []string{fault.Create}, LatencyMs: hour,
				Applied: applied}))
			answered := make(chan error)
			go func() {
				_, err := co.CreateItem(context.Background(), key("s", "d"),
					encode(t, chunk{ID: "x", TenantShard: "s", Device: "d", Data: "new"}), nil)
				answered <- err
			}()
			hits(s)
			if applied {
				require.Eventually(t, func() bool { return dataOf(t, co) == "new" }, time.Minute, time.Millisecond)
			} else {
				require.Empty(t, dataOf(t, co))
			}
			s.Faults().Clear() // nobody waits any longer
			require.NoError(t, <-answered)
			require.Equal(t, "new", dataOf(t, co))

			require.NoError(t, s.Faults().Replace(1, fault.Rule{LatencyMs: 1}))
			require.Equal(t, "new", dataOf(t, co))
		})
	}
}

// Metadata fails only when it is named.
func TestFaultsOfMetadata(t *testing.T) {
	s := open(t, emulator.Config{})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	require.NoError(t, s.Faults().Replace(1, fault.Rule{Status: 503}))
	_, err := co.Read(context.Background(), nil)
	require.NoError(t, err)
	require.NoError(t, s.Faults().Replace(1, fault.Rule{Operations: []string{fault.Metadata}, Status: 503}))
	_, err = co.Read(context.Background(), nil)
	require.Equal(t, 503, code(err))
}

// What hangs does not keep a Server from closing.
func TestCloseWhileARequestHangs(t *testing.T) {
	s, err := emulator.Open(emulator.Config{InMemory: true})
	require.NoError(t, err)
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	require.NoError(t, s.Faults().Replace(1, fault.Rule{Hang: true}))
	answered := make(chan error)
	go func() {
		_, err := co.ReadItem(context.Background(), key("s", "d"), "x", nil)
		answered <- err
	}()
	hits(s)
	require.NoError(t, s.Close())
	require.Error(t, <-answered)
}

// admin asks /_emulator/faults.
func admin(s *emulator.Server, method, body, remote string) (*http.Response, string) {
	r := httptest.NewRequest(method, "http://emulator/_emulator/faults", strings.NewReader(body))
	r.RemoteAddr = remote
	w := httptest.NewRecorder()
	s.RoutingGateway().ServeHTTP(w, r)
	return w.Result(), w.Body.String()
}

func TestFaultsOverHTTP(t *testing.T) {
	const here, elsewhere = "127.0.0.1:4711", "192.0.2.1:4711"
	s := open(t, emulator.Config{Faults: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	const rules = `{"seed":42,"rules":[{"name":"slow","operations":["upsert","create"],"container":"chunks-*","latencyMs":3},
		{"operations":["read"],"count":1,"status":503,"substatus":21,"applied":true}]}`
	resp, body := admin(s, "PUT", rules, here)
	require.Equal(t, 200, resp.StatusCode, body)
	_, err := co.ReadItem(context.Background(), key("s", "d"), "x", nil)
	require.Equal(t, 503, code(err))
	require.Equal(t, "21", substatus(err))
	require.Equal(t, 2, s.Overview().Faults)

	resp, body = admin(s, "GET", "", here)
	require.Equal(t, 200, resp.StatusCode)
	var state fault.State
	require.NoError(t, json.Unmarshal([]byte(body), &state))
	require.Equal(t, s.Faults().State(), state)
	require.EqualValues(t, 42, state.Seed)
	require.Equal(t, []int{0, 1}, []int{state.Rules[0].Hits, state.Rules[1].Hits})

	resp, body = admin(s, "DELETE", "", here)
	require.Equal(t, 204, resp.StatusCode, body)
	require.False(t, s.Faults().On())

	for name, c := range map[string]struct {
		method, body, remote string
		off                  bool
		status               int
		says                 string
	}{
		"not JSON":          {"PUT", `{`, here, false, 400, "not an object with rules"},
		"a misspelled word": {"PUT", `{"rules":[{"latency":5}]}`, here, false, 400, "latency"},
		"wrong rules":       {"PUT", `{"rules":[{"status":200},{"count":-1}]}`, here, false, 400, "rule 1: skip and count"},
		"another method":    {"POST", rules, here, false, 405, "PUT"},
		"from elsewhere":    {"PUT", rules, elsewhere, false, 403, "on the machine of the emulator"},
		"reads, elsewhere":  {"GET", "", elsewhere, false, 403, "on the machine of the emulator"},
		"without the flag":  {"PUT", rules, here, true, 403, "--faults"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, emulator.Config{Faults: !c.off})
			resp, body := admin(s, c.method, c.body, c.remote)
			require.Equal(t, c.status, resp.StatusCode)
			require.Contains(t, body, c.says)
			require.False(t, s.Faults().On())
		})
	}
}
