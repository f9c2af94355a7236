package emulator_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// The environment of TestFeedChild.
const (
	feedDir    = "COSMOSEMU_TEST_FEED_DIR"
	feedTokens = "COSMOSEMU_TEST_FEED_TOKENS"
	feedSeed   = "COSMOSEMU_TEST_FEED_SEED"
)

// servedPage is a page of the change feed that a client has.
type servedPage struct {
	Range string
	ETag  string
	Items []feedItem
}

// feedReader is a client of the change feed with one token a range. A range that a split has made
// goes on with the token of the last of its parents that has one.
type feedReader struct{ tokens map[string]string }

func (f *feedReader) token(r keyRange) string {
	for i := len(r.Parents); i >= 0; i-- {
		id := r.ID
		if i < len(r.Parents) {
			id = r.Parents[i]
		}
		if etag, ok := f.tokens[id]; ok {
			return etag
		}
	}
	return ""
}

// pass reads every range to its end, and tells of each page.
func (f *feedReader) pass(t testing.TB, s *emulator.Server, served func(servedPage)) {
	ranges, _ := readRanges(t, s, "")
	for _, r := range ranges {
		etag := f.token(r)
		for {
			page := readFeed(t, s, r.ID, etag, "x-ms-max-item-count", "20")
			if page.status == 410 {
				break // split meanwhile: the next pass reads its children
			}
			served(servedPage{r.ID, page.etag, page.items})
			etag = page.etag
			f.tokens[r.ID] = etag
			if page.status == 304 {
				break
			}
		}
	}
}

// witness is what a reader of the feed knows after all it was served, over all processes.
type witness struct {
	reader feedReader
	latest map[string]int64  // by id: the version it was shown last
	given  map[string]string // by range and sequence number: what it stood for
	upTo   map[string]uint64 // by range
	pages  int
}

func (w *witness) served(t *testing.T, p servedPage) {
	w.pages++
	for _, item := range p.Items {
		at := fmt.Sprint(p.Range, "#", item.LSN)
		what := fmt.Sprint(item.ID, " version ", item.From)
		if before, ok := w.given[at]; ok {
			require.Equal(t, before, what, "the sequence number %s was used again", at)
		}
		w.given[at] = what
		require.Greater(t, item.LSN, w.upTo[p.Range], "range %s goes back", p.Range)
		w.upTo[p.Range] = item.LSN
		w.latest[item.ID] = item.From
	}
	w.reader.tokens[p.Range] = p.ETag
	at, err := strconv.ParseUint(strings.Trim(p.ETag, `"`), 10, 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, at, w.upTo[p.Range])
	w.upTo[p.Range] = at
}

// TestFeedThroughKillsAndSplits reads the change feed while a process writes, deletes and splits, and
// is ended with SIGKILL at random moments. What the reader has been served in all its lives must be
// the latest version of every item, in order, with no sequence number twice.
func TestFeedThroughKillsAndSplits(t *testing.T) {
	const rounds = 10
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	w := &witness{feedReader{map[string]string{}}, map[string]int64{}, map[string]string{}, map[string]uint64{}, 0}
	for round := range rounds {
		w.round(t, dir, random.Uint64(), 10+random.IntN(100))
		s, err := emulator.Open(emulator.Config{DataDir: dir, Unlimited: true})
		require.NoError(t, err)
		w.reader.pass(t, s, func(p servedPage) { w.served(t, p) })
		db, err := client(t, s).NewDatabase("db")
		require.NoError(t, err)
		co, err := db.NewContainer("chunks")
		require.NoError(t, err)
		rows, _, _ := query(t, co, azcosmos.NewPartitionKey(), `SELECT c.id, c["from"] FROM c`, 1000)
		require.NotEmpty(t, rows)
		for _, row := range rows {
			var item feedItem
			require.NoError(t, json.Unmarshal([]byte(row), &item))
			require.Equal(t, item.From, w.latest[item.ID], "round %d: item %s", round, item.ID)
		}
		again := map[string]int{}
		(&feedReader{map[string]string{}}).pass(t, s, func(p servedPage) {
			for _, item := range p.Items {
				again[item.ID]++
				require.Equal(t, 1, again[item.ID], "from the beginning, every item comes once: %s", item.ID)
			}
		})
		require.Len(t, again, len(rows))
		parts, err := s.Partitions("db", "chunks")
		require.NoError(t, err)
		items := 0
		for _, p := range parts {
			items += int(p.Items)
		}
		require.Equal(t, len(rows), items)
		t.Logf("round %d: %d pages, %d items, %d ranges", round, w.pages, len(rows), len(parts))
		require.NoError(t, s.Close())
	}
}

// round lets a child work until it has served that many pages with items, and kills it.
func (w *witness) round(t *testing.T, dir string, seed uint64, pages int) {
	tokens, err := json.Marshal(w.reader.tokens)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestFeedChild$", "-test.v")
	cmd.Env = append(os.Environ(), feedDir+"="+dir, feedTokens+"="+string(tokens),
		feedSeed+"="+strconv.FormatUint(seed, 10))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "served ")
		var p servedPage
		if !ok || json.Unmarshal([]byte(text), &p) != nil {
			continue // not a page, or one that the kill has cut off
		}
		w.served(t, p)
		if len(p.Items) == 0 {
			continue // there may be many of these before the first write
		}
		if n++; n == pages {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait() // killed
	require.GreaterOrEqual(t, n, pages, "the child ended by itself")
}

// TestFeedChild is the process that TestFeedThroughKillsAndSplits ends. Alone it does nothing.
func TestFeedChild(t *testing.T) {
	dir := os.Getenv(feedDir)
	if dir == "" {
		t.Skip("runs as the child of TestFeedThroughKillsAndSplits only")
	}
	seed, err := strconv.ParseUint(os.Getenv(feedSeed), 10, 64)
	require.NoError(t, err)
	reader := feedReader{map[string]string{}}
	require.NoError(t, json.Unmarshal([]byte(os.Getenv(feedTokens)), &reader.tokens))
	s, err := emulator.Open(emulator.Config{DataDir: dir, PhysicalPartitions: 2, Unlimited: true})
	require.NoError(t, err)
	c := client(t, s)
	co, err := c.NewContainer("db", "chunks")
	require.NoError(t, err)
	if _, err := co.Read(context.Background(), nil); code(err) == 404 {
		co = create(t, c, hierarchical("chunks"), 400)
	}
	var work sync.WaitGroup
	var writes atomic.Int64
	for w := range 4 {
		work.Go(func() { writeAtRandom(t, co, rand.New(rand.NewPCG(seed, uint64(w))), &writes) })
	}
	work.Go(func() {
		random := rand.New(rand.NewPCG(seed, 99))
		for next := int64(40); next < 1000; {
			if writes.Load() < next {
				time.Sleep(time.Millisecond) // paces splits by the writes of others
				continue
			}
			next += int64(60 + random.IntN(150))
			if ranges, _ := readRanges(t, s, ""); len(ranges) < 40 {
				_ = s.Split("db", "chunks", ranges[random.IntN(len(ranges))].ID)
			}
		}
	})
	for {
		reader.pass(t, s, func(p servedPage) {
			b, err := json.Marshal(p)
			require.NoError(t, err)
			fmt.Println("served " + string(b))
		})
	}
}

// writeAtRandom upserts and deletes items until the process ends. No version number comes twice.
func writeAtRandom(t *testing.T, co *azcosmos.ContainerClient, random *rand.Rand, writes *atomic.Int64) {
	for {
		n := random.IntN(200)
		id, shard, device := fmt.Sprint("i", n), fmt.Sprint("s", n%3), fmt.Sprint("d", n%20)
		var err error
		if random.IntN(5) == 0 {
			_, err = co.DeleteItem(context.Background(), key(shard, device), id, nil)
		} else {
			body := encode(t, chunk{ID: id, TenantShard: shard, Device: device, From: random.Int64N(1 << 40)})
			_, err = co.UpsertItem(context.Background(), key(shard, device), body, nil)
		}
		if err != nil && code(err) != 404 {
			t.Errorf("write: %v", err)
			return
		}
		writes.Add(1)
	}
}
