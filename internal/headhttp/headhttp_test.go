package headhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/headhttp"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// process is the heads of one ingester, as a test has set them.
type process struct {
	heads   []store.PartitionHead
	rows    map[int][]store.HeadRows // by index into heads
	broken  map[int]error            // after the rows
	devices []store.HeadDevice
	news    store.HeadUpdates
	err     error
	asked   []store.HeadRequest
	listed  []store.ListRequest
	wait    chan struct{}
}

func (p *process) Heads(ctx context.Context, q store.HeadRequest) ([]store.PartitionHead, error) {
	p.asked = append(p.asked, q)
	if p.wait != nil {
		select {
		case <-p.wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out := slices.Clone(p.heads)
	for i := range out {
		out[i].Rows = func(yield func(store.HeadRows, error) bool) {
			for _, r := range p.rows[i] {
				if q.Blocks && r.Blocks != nil {
					r.Frame = chunk.Frame{}
				} else {
					r.Blocks = nil
				}
				if !yield(r, nil) {
					return
				}
			}
			if err := p.broken[i]; err != nil {
				yield(store.HeadRows{}, err)
			}
		}
	}
	return out, p.err
}

func (p *process) Devices(_ context.Context, q store.ListRequest) ([]store.HeadDevice, error) {
	p.listed = append(p.listed, q)
	return p.devices, p.err
}

func (p *process) CatalogUpdates(context.Context, string) (store.HeadUpdates, error) {
	return p.news, p.err
}

// serve serves a process and returns its base URL.
func serve(t testing.TB, p *process, secret string) string {
	server := httptest.NewServer(headhttp.Handler(headhttp.HandlerConfig{
		Heads: p, Secret: func() string { return secret }, Logger: slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func client(secret string, urls ...string) *headhttp.Client {
	return headhttp.NewClient(headhttp.ClientConfig{
		Targets: func(context.Context) ([]string, error) { return urls, nil }, Secret: func() string { return secret },
		Timeout: time.Minute,
	})
}

// all reads the rows of every head.
func all(heads []store.PartitionHead) (out [][]store.HeadRows, err error) {
	for _, h := range heads {
		var rows []store.HeadRows
		for r, e := range h.Rows {
			if e != nil {
				return out, e
			}
			rows = append(rows, r)
		}
		out = append(out, rows)
	}
	return out, nil
}

// plain is heads without their rows, which can't be compared.
func plain(heads []store.PartitionHead) []store.PartitionHead {
	out := slices.Clone(heads)
	for i := range out {
		out[i].Rows = nil
	}
	return out
}

func randomFrame(random *rand.Rand) chunk.Frame {
	var f chunk.Frame
	for g := range 1 + random.IntN(3) {
		group := chunk.Group{}
		if g > 0 {
			group.Labels = telemetry.Labels{{Name: "axle", Value: fmt.Sprint(g)}, {Name: "ü", Value: ""}}
		}
		at := int64(1_795_183_200_000)
		for range 1 + random.IntN(200) {
			at += 1 + random.Int64N(20_000)
			group.Times = append(group.Times, at)
		}
		for k := telemetry.Float; k <= telemetry.Text; k++ {
			col := chunk.Column{Metric: fmt.Sprintf("m%d", k), Kind: k}
			if random.IntN(2) == 0 {
				col.Present = chunk.NewBitmap(len(group.Times))
				for i := range group.Times {
					if i == 0 || random.IntN(3) > 0 {
						col.Present.Set(i)
					}
				}
			}
			n := len(group.Times)
			if col.Present != nil {
				n = col.Present.Count()
			}
			for range n {
				switch k {
				case telemetry.Text:
					col.Texts = append(col.Texts, strings.Repeat("é", random.IntN(4)))
				case telemetry.Bool:
					col.Bits = append(col.Bits, random.Uint64N(2))
				default:
					col.Bits = append(col.Bits, random.Uint64())
				}
			}
			group.Columns = append(group.Columns, col)
		}
		f.Groups = append(f.Groups, group)
	}
	return f
}

func randomProcess(random *rand.Rand, stream uint32) *process {
	p := &process{rows: map[int][]store.HeadRows{}}
	for i := range 1 + random.IntN(4) {
		h := store.PartitionHead{
			Topic: "telemetry", Partition: int32(i), Stream: stream, Position: random.Int64(), CaughtUp: random.Int64(),
			Containers: []string{"chunks-2026-10", "chunks-acme-2026-11"},
		}
		for j := range random.IntN(3) {
			h.Deferrals = append(h.Deferrals, store.HeadDeferral{Device: []string{"", "truck-0001"}[j%2], From: random.Int64(),
				Since: -1, Limit: "device-values"})
		}
		for j := range random.IntN(3000) {
			h.Chains = append(h.Chains, store.HeadChain{
				Device: fmt.Sprintf("truck-%04d", j), Day: telemetry.Day(random.IntN(30000)),
				Tail: store.Tail{Number: random.Uint32(), Through: random.Int64()},
			})
		}
		p.heads = append(p.heads, h)
		for j := range random.IntN(20) {
			p.rows[i] = append(p.rows[i], store.HeadRows{
				Device: fmt.Sprintf("truck-%04d", j), Frame: randomFrame(random),
				Source: store.Source{Stream: stream, Partition: int32(i), Through: random.Int64()},
			})
		}
		p.devices = append(p.devices, store.HeadDevice{
			Device: fmt.Sprintf("truck-%04d", i), First: random.Int64(), Last: random.Int64(),
		})
	}
	return p
}

// What several processes hold arrives as it is, bit for bit.
func TestHeadsRoundTrip(t *testing.T) {
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 1))
		a, b := randomProcess(random, 1), randomProcess(random, 2)
		c := client("s3cret", serve(t, a, "s3cret"), serve(t, b, "s3cret"))
		ctx, cancel := context.WithCancel(t.Context())
		q := store.HeadRequest{Tenant: "acme", Devices: []string{"truck-0001"}, Range: telemetry.Range{From: 5, To: 9},
			Metrics: []string{"m1"}}
		heads, err := c.Heads(ctx, q)
		require.NoError(t, err)
		require.Equal(t, append(slices.Clone(a.heads), b.heads...), plain(heads))
		q.Blocks = true
		require.Equal(t, []store.HeadRequest{q}, a.asked)
		rows, err := all(heads)
		require.NoError(t, err)
		for i := range a.heads {
			require.Equal(t, a.rows[i], rows[i], "seed %d", seed)
		}
		for i := range b.heads {
			require.Equal(t, b.rows[i], rows[len(a.heads)+i], "seed %d", seed)
		}
		list := store.ListRequest{Tenant: "acme", Devices: []string{"truck-0001"}}
		devices, err := c.Devices(ctx, list)
		require.NoError(t, err)
		require.Equal(t, append(slices.Clone(a.devices), b.devices...), devices)
		require.Equal(t, []store.ListRequest{list}, b.listed)
		cancel()
	}
}

// All devices are asked for by nil, none by an empty list: the two must not be mixed up on the way.
func TestEmptyDeviceListIsNotAll(t *testing.T) {
	p := &process{}
	c := client("", serve(t, p, ""))
	for _, q := range []store.HeadRequest{{Tenant: "acme", Devices: []string{}}, {Tenant: "acme"}} {
		_, err := c.Heads(t.Context(), q)
		require.NoError(t, err)
	}
	require.NotNil(t, p.asked[0].Devices)
	require.Nil(t, p.asked[1].Devices)
}

func TestSecretIsRequired(t *testing.T) {
	url := serve(t, &process{heads: []store.PartitionHead{{Topic: "telemetry"}}}, "right")
	for _, wrong := range []string{"", "wrong", "right1", "Right"} {
		heads, err := client(wrong, url).Heads(t.Context(), store.HeadRequest{Tenant: "acme"})
		require.ErrorContains(t, err, "401")
		require.Empty(t, heads)
		_, err = client(wrong, url).Devices(t.Context(), store.ListRequest{Tenant: "acme"})
		require.ErrorContains(t, err, "401")
	}
	heads, err := client("right", url).Heads(t.Context(), store.HeadRequest{Tenant: "acme"})
	require.NoError(t, err)
	require.Len(t, heads, 1)
}

// One process that is gone leaves the others' heads right, and is an error beside them.
func TestTargetIsGone(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	here := &process{heads: []store.PartitionHead{{Topic: "telemetry", Partition: 3}},
		devices: []store.HeadDevice{{Device: "m1"}}}
	c := client("", gone.URL, serve(t, here, ""))
	heads, err := c.Heads(t.Context(), store.HeadRequest{Tenant: "acme"})
	require.ErrorContains(t, err, "heads of "+gone.URL)
	require.ErrorContains(t, err, "not all ingesters answer: 1 of 2")
	require.Equal(t, here.heads, plain(heads))
	devices, err := c.Devices(t.Context(), store.ListRequest{Tenant: "acme"})
	require.ErrorContains(t, err, "heads of "+gone.URL)
	require.Equal(t, here.devices, devices)
}

// Somebody else's page at that address is no head.
func TestTargetIsAnotherServer(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer other.Close()
	_, err := client("", other.URL).Heads(t.Context(), store.HeadRequest{Tenant: "acme"})
	require.ErrorContains(t, err, "not an answer of a head")
}

// Known bins are named to the process that has answered their owner.
func TestKnownBinsAreNamedToTheirOwner(t *testing.T) {
	p := &process{heads: []store.PartitionHead{{Topic: "telemetry", Partition: 3, Owner: 7}}}
	c := client("", serve(t, p, ""))
	q := store.HeadRequest{Tenant: "acme", Bins: true, Known: []store.HeadKnown{{Owner: 6}, {Owner: 7}}}
	for range 2 {
		_, err := c.Heads(t.Context(), q)
		require.NoError(t, err)
	}
	require.Empty(t, p.asked[0].Known)
	require.Equal(t, q.Known[1:], p.asked[1].Known)
}

func TestTargetHangs(t *testing.T) {
	p := &process{wait: make(chan struct{})}
	url := serve(t, p, "")
	c := headhttp.NewClient(headhttp.ClientConfig{
		Targets: func(context.Context) ([]string, error) { return []string{url}, nil }, Timeout: 20 * time.Millisecond,
	})
	_, err := c.Heads(t.Context(), store.HeadRequest{Tenant: "acme"})
	require.ErrorContains(t, err, "no answer in time")
	close(p.wait)
}

func bin(device string) store.HeadRows {
	return store.HeadRows{Device: device, Frame: chunk.Frame{Groups: []chunk.Group{{
		Times: []int64{1}, Columns: []chunk.Column{{Metric: "m", Kind: telemetry.Float, Bits: []uint64{1}}},
	}}}}
}

// What a process can't tell is an error of the answer, or of the rows that are missing.
func TestFaultIsReported(t *testing.T) {
	q := store.HeadRequest{Tenant: "acme", Range: telemetry.Range{To: 1}}
	busy := &process{heads: make([]store.PartitionHead, 2), err: errors.New("one is being taken over")}
	c := client("", serve(t, busy, ""))
	heads, err := c.Heads(t.Context(), q)
	require.ErrorContains(t, err, "one is being taken over")
	require.Len(t, heads, 2)
	_, err = c.Devices(t.Context(), store.ListRequest{Tenant: "acme"})
	require.ErrorContains(t, err, "one is being taken over")

	broken := &process{
		heads: make([]store.PartitionHead, 2), rows: map[int][]store.HeadRows{0: {bin("m1")}},
		broken: map[int]error{0: errors.New("the query's memory is used up")},
	}
	heads, err = client("", serve(t, broken, "")).Heads(t.Context(), q)
	require.NoError(t, err)
	_, err = all(heads)
	require.ErrorContains(t, err, "the query's memory is used up")
	_, err = all(heads[1:])
	require.Error(t, err, "what comes after is missing too")
}

// An answer that breaks off anywhere is never taken for a shorter one.
func TestTruncatedAnswer(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	p := randomProcess(random, 1)
	p.rows[0] = append(p.rows[0], bin("m1"))
	url := serve(t, p, "")
	whole := fetch(t, url)
	for range 60 {
		n := random.IntN(len(whole))
		cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.binnacle.heads.v1")
			_, _ = w.Write(whole[:n])
		}))
		heads, err := client("", cut.URL).Heads(t.Context(), store.HeadRequest{Tenant: "acme", Range: telemetry.Range{To: 1}})
		if err == nil {
			_, err = all(heads)
		}
		cut.Close()
		require.Error(t, err, "cut at %d of %d", n, len(whole))
	}
}

// noisy is a process with bins of noise, and sends their blocks to queriers that take them: so many devices, of so many
// readings of the instants from 0 on.
func noisy(t testing.TB, random *rand.Rand, devices, readings int) *process {
	p := &process{heads: []store.PartitionHead{{Topic: "telemetry", Owner: 7, Position: 1 << 30}, {Topic: "telemetry",
		Partition: 1, Owner: 8, Position: 1 << 30}}, rows: map[int][]store.HeadRows{}}
	schemas := binning.NewSchemas()
	for d := range devices {
		b := binning.NewBin(binning.NewNames())
		for i := range readings {
			if b.Ripe(int64(i), binning.BlockRows) {
				require.True(t, b.Seal(schemas))
			}
			r := telemetry.Reading{Time: int64(i), Fields: []telemetry.Field{
				{Metric: "a", Value: telemetry.IntValue(int64(i))},
				{Metric: "noise", Value: telemetry.BitsValue(telemetry.Float, random.Uint64())}}}
			b.Append(int64(i), r)
		}
		noise := binning.Selection{Above: -1, Below: 1 << 30, Span: binning.All, Metrics: []string{"noise"}}
		blocks, err := b.SelectBlocks(noise)
		require.NoError(t, err)
		require.NotEmpty(t, blocks)
		f, err := b.Frame(noise)
		require.NoError(t, err)
		p.rows[d%2] = append(p.rows[d%2], store.HeadRows{Device: fmt.Sprintf("truck-%04d", d), Frame: f, Blocks: blocks,
			Source: store.Source{Stream: 1, Partition: int32(d % 2), Through: int64(readings - 1)}, Above: -1, Day: 5, First: 3})
	}
	return p
}

// Blocks that are sent as they are become their rows, of the instants that were asked for, as they
// do where a querier knows nothing of blocks.
func TestBlocksDecodeToRows(t *testing.T) {
	p := noisy(t, rand.New(rand.NewPCG(4, 4)), 40, 700)
	p.rows[1] = append(p.rows[1], bin("zz"))
	url := serve(t, p, "")
	for _, to := range []int64{1000, 100, 64} {
		span := telemetry.Range{From: 1000 - to, To: to}
		if to < 1000 {
			span.From = 7
		}
		heads, err := client("", url).Heads(t.Context(), store.HeadRequest{Tenant: "acme", Range: span, Bins: true})
		require.NoError(t, err)
		got, err := all(heads)
		require.NoError(t, err)
		for i := range p.heads {
			want := slices.Clone(p.rows[i])
			for j := range want {
				if want[j].Blocks != nil {
					want[j].Frame, want[j].Blocks = p.rows[i][j].Frame, nil
					g := &want[j].Frame.Groups[0]
					from, to := max(span.From, 0), min(span.To, int64(len(g.Times)))
					cut := chunk.Group{Times: g.Times[from:to], Columns: slices.Clone(g.Columns)}
					cut.Columns[0].Bits = g.Columns[0].Bits[from:to]
					want[j].Frame = chunk.Frame{Groups: []chunk.Group{cut}}
				}
			}
			require.Equal(t, want, got[i])
		}
	}
	require.True(t, p.asked[0].Blocks && p.asked[0].Bins)
	p.asked = nil
	require.Greater(t, len(fetch(t, url, "Binnacle-Heads-Blocks")), 40*700*8, "packed noise is no smaller")
	require.False(t, p.asked[0].Blocks, "a release before knows no blocks of this layout")

	whole := fetch(t, url, "Binnacle-Heads-Blocks-2", "Binnacle-Heads-Bins")
	random := rand.New(rand.NewPCG(5, 5))
	for range 60 {
		n := random.IntN(len(whole))
		cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.binnacle.heads.v1")
			_, _ = w.Write(whole[:n])
		}))
		heads, err := client("", cut.URL).Heads(t.Context(), store.HeadRequest{Tenant: "acme", Range: telemetry.Range{To: 1}})
		if err == nil {
			_, err = all(heads)
		}
		cut.Close()
		require.Error(t, err, "cut at %d of %d", n, len(whole))
	}
}

// A block that is none is an error of its rows.
func TestInvalidBlock(t *testing.T) {
	p := noisy(t, rand.New(rand.NewPCG(6, 6)), 1, 700)
	rows := p.rows[0][0].Blocks[0].Rows
	rows[3] = rows[3][:len(rows[3])-1]
	heads, err := client("", serve(t, p, "")).Heads(t.Context(), store.HeadRequest{Tenant: "acme",
		Range: telemetry.Range{To: 1000}})
	require.NoError(t, err)
	_, err = all(heads)
	require.ErrorIs(t, err, chunk.ErrCorrupt)
}

// fetch is an answer as it goes over the wire.
func fetch(t testing.TB, url string, headers ...string) []byte {
	body := strings.NewReader(`{"Tenant":"acme","Range":{"From":0,"To":1}}`)
	r, err := http.NewRequest(http.MethodPost, url+"/heads/v1/rows", body)
	require.NoError(t, err)
	for _, name := range headers {
		r.Header.Set(name, "yes")
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	whole, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return whole
}

// Of two processes that own a partition only one is read: the other's rows are passed over.
func TestUnreadHeadsAreSkipped(t *testing.T) {
	p := &process{heads: make([]store.PartitionHead, 3), rows: map[int][]store.HeadRows{0: {bin("a"), bin("b")},
		1: {bin("c")}, 2: {bin("d")}}}
	c := client("", serve(t, p, ""))
	heads, err := c.Heads(t.Context(), store.HeadRequest{Tenant: "acme", Range: telemetry.Range{To: 1}})
	require.NoError(t, err)
	got, err := all(heads[2:])
	require.NoError(t, err)
	require.Equal(t, [][]store.HeadRows{{bin("d")}}, got)
	_, err = all(heads[:1])
	require.ErrorContains(t, err, "in their order")
}

func TestInvalidRequest(t *testing.T) {
	url := serve(t, &process{}, "")
	for _, body := range []string{"", "{", `{"Tenant":5}`, `{"Tenat":"acme"}`} {
		resp, err := http.Post(url+"/heads/v1/rows", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, body)
	}
	resp, err := http.Get(url + "/heads/v1/rows")
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
}

// Any bytes are an error or an answer, never a panic.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("hello"))
	f.Add([]byte("p\x02\x02a")) // a text that is longer than its message by what its length takes
	url := serve(f, noisy(f, rand.New(rand.NewPCG(7, 7)), 2, 150), "")
	told := fetch(f, url, "Binnacle-Heads-Blocks-2", "Binnacle-Heads-Bins")
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	require.NoError(f, err)
	defer unpack.Close()
	whole, err := unpack.DecodeAll(told, nil)
	require.NoError(f, err)
	f.Add(whole)
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.binnacle.heads.v1")
		_, _ = w.Write(body)
	}))
	defer server.Close()
	c := client("", server.URL)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		body = zip(t, bytes)
		heads, err := c.Heads(t.Context(), store.HeadRequest{Tenant: "acme", Range: telemetry.Range{To: 1}})
		if err == nil {
			_, _ = all(heads)
		}
		_, _ = c.Devices(t.Context(), store.ListRequest{Tenant: "acme"})
	})
}
