package replay_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/ops/replay"
	"binnacle/internal/telemetry"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// topic is a strict stand-in for a Kafka topic: it fails the test if a batch of a partition begins before
// the last one has ended.
type topic struct {
	t      *testing.T
	n      int
	fail   func(partition, attempt int) error // nil: never
	lost   bool                               // a batch that fails was appended all the same
	onSend func(n int)

	mu       sync.Mutex
	busy     map[int]bool
	attempts map[int]int
	keys     [][]string // by partition
	values   [][]string
	grants   []string
}

func newTopic(t *testing.T, partitions int) *topic {
	return &topic{t: t, n: partitions, busy: map[int]bool{}, attempts: map[int]int{},
		keys: make([][]string, partitions), values: make([][]string, partitions)}
}

func (k *topic) Partitions(context.Context) (int, error) { return k.n, nil }

func (k *topic) Produce(_ context.Context, partition int, messages []kafka.Message) error {
	k.mu.Lock()
	if k.busy[partition] {
		k.t.Errorf("two batches in flight in partition %d", partition)
	}
	k.busy[partition] = true
	k.attempts[partition]++
	attempt := k.attempts[partition]
	k.mu.Unlock()
	var err error
	if k.fail != nil {
		err = k.fail(partition, attempt)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy[partition] = false
	if err != nil && !k.lost {
		return err
	}
	for _, m := range messages {
		k.keys[partition] = append(k.keys[partition], string(m.Key))
		k.values[partition] = append(k.values[partition], string(m.Value))
		grant := ""
		for _, h := range m.Headers[1:] {
			grant = string(h.Value)
		}
		k.grants = append(k.grants, grant)
	}
	if k.onSend != nil {
		k.onSend(len(messages))
	}
	return err
}

// all are the messages, partition by partition.
func (k *topic) all() (keys, values []string) {
	for i := range k.keys {
		keys = append(keys, k.keys[i]...)
		values = append(values, k.values[i]...)
	}
	return keys, values
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	data := []byte(text)
	if strings.HasSuffix(strings.ToLower(name), ".gz") {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(data)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		data = b.Bytes()
	}
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func config(file string) replay.Config {
	return replay.Config{File: file, Tenant: "acme", Device: "m1", Kafka: kafka.Config{Brokers: []string{"127.0.0.1:1"}},
		Topic: "telemetry",
		Now:   func() time.Time { return now }}
}

// run replays a file into a topic of one partition, and returns what was published.
func run(t *testing.T, cfg replay.Config) (replay.Summary, []string, []string) {
	t.Helper()
	k := newTopic(t, 1)
	s, err := replay.RunTo(t.Context(), cfg, k)
	require.NoError(t, err)
	keys, values := k.all()
	require.Equal(t, len(values), s.Records)
	return s, keys, values
}

func TestFormatDetection(t *testing.T) {
	const (
		table   = "time,a\n2026-01-01 00:00:00,1\n"
		message = `{"tenant":"acme","device":"m1","ts":1767225600000,"values":{"a":1}}` + "\n"
		line    = "m a=1 1767225600000000000\n"
	)
	for _, c := range []struct {
		name, text, format string
		want               replay.Format
	}{
		{"x.csv", table, "", replay.CSV},
		{"x.CSV.GZ", table, "", replay.CSV},
		{"x.ndjson", message, "", replay.NDJSON},
		{"x.jsonl.gz", message, "", replay.NDJSON},
		{"x.lp", line, "", replay.LineProtocol},
		{"x.lp.gz", line, "", replay.LineProtocol},
		{"x.txt", "\ufeff" + table, "csv", replay.CSV},
		{"x.csv", "# made by hand\n\n" + line, "lp", replay.LineProtocol},
		{"x.lp", message, "jsonl", replay.NDJSON},
	} {
		cfg := config(writeFile(t, c.name, c.text))
		cfg.Format = c.format
		s, keys, _ := run(t, cfg)
		require.Equal(t, c.want, s.Format, c)
		require.Equal(t, []string{"acme/m1"}, keys, c)
		require.Equal(t, 1, s.Readings, c)
		require.Zero(t, s.BadLines, c)
	}
}

func TestErrorsNameTheCause(t *testing.T) {
	csv := writeFile(t, "x.csv", "when,a\n2026-01-01,1\n")
	lp := writeFile(t, "x.lp", "m a=1\n")
	for _, c := range []struct {
		change func(*replay.Config)
		want   string
	}{
		{func(c *replay.Config) { c.File = "/no/such.csv" }, "/no/such.csv"},
		{func(c *replay.Config) { c.File = os.TempDir() }, os.TempDir()},
		{func(c *replay.Config) { c.Tenant = "" }, "--tenant"},
		{func(c *replay.Config) { c.Tenant = "Acme" }, "--tenant"},
		{func(c *replay.Config) { c.Device = "" }, "--device or --device-column"},
		{func(c *replay.Config) { c.Device = "a/b" }, "--device"},
		{func(c *replay.Config) { c.Format = "xml" }, "--format"},
		{func(c *replay.Config) { c.File = writeFile(t, "x.txt", "time,a\n2026-01-01,1\n") }, "give --format"},
		{func(c *replay.Config) { c.Rate = -1 }, "--rate"},
		{func(c *replay.Config) {}, "--time-column; it has the columns when, a"},
		{func(c *replay.Config) { c.TimeColumn = "at" }, `--time-column "at"`},
		{func(c *replay.Config) { c.TimeColumn, c.DeviceColumn = "when", "id" }, `--device-column "id"`},
		{func(c *replay.Config) { c.File, c.Device = lp, "" }, "--device or --lp-device-tag"},
		{func(c *replay.Config) { c.File, c.Tenant = lp, "" }, "--tenant or --lp-tenant-tag"},
		{func(c *replay.Config) { c.File = writeFile(t, "e.csv", "") }, "is empty"},
		{func(c *replay.Config) { c.File = writeFile(t, "e.csv", "time,a,a\n") }, "two columns"},
		{func(c *replay.Config) { c.File = writeFile(t, "e.csv", "time\n") }, "nothing to publish"},
		{func(c *replay.Config) { c.File = csv + ".gz"; _ = os.WriteFile(csv+".gz", []byte("plain"), 0o600) }, csv + ".gz"},
	} {
		cfg := config(csv)
		c.change(&cfg)
		s, err := replay.RunTo(t.Context(), cfg, newTopic(t, 1))
		require.ErrorContains(t, err, c.want)
		require.Zero(t, s.Records)
	}
}

func TestTruncatedGzipIsAnErrorAfterItsWholeLines(t *testing.T) {
	var text strings.Builder
	text.WriteString("time,a\n")
	for i := range 20_000 {
		text.WriteString(time.UnixMilli(int64(i)*60_000).UTC().Format(time.RFC3339) + ",1.25\n")
	}
	whole := writeFile(t, "x.csv.gz", text.String())
	data, err := os.ReadFile(whole)
	require.NoError(t, err)
	cut := filepath.Join(t.TempDir(), "cut.csv.gz")
	require.NoError(t, os.WriteFile(cut, data[:len(data)/2], 0o600))
	k := newTopic(t, 2)
	s, err := replay.RunTo(t.Context(), config(cut), k)
	require.ErrorContains(t, err, cut)
	require.Zero(t, s.BadLines)
	require.Greater(t, s.Records, 1000)
	_, values := k.all()
	for _, v := range values {
		require.Contains(t, v, `"a":1.25`)
	}
}

// Batches are bounded, a device stays in its partition, and its readings in their order.
func TestOrderAndPartitions(t *testing.T) {
	const devices, each = 40, 500
	var text strings.Builder
	text.WriteString("time,id,n,pad\n")
	pad := strings.Repeat("x", 100)
	for i := range devices * each {
		text.WriteString(time.UnixMilli(int64(i)).UTC().Format("2006-01-02 15:04:05.000") + ",d" + strconv.Itoa(i%devices) +
			",")
		text.WriteString(strings.Repeat("1", 1+i%3) + "," + pad + "\n")
	}
	cfg := config(writeFile(t, "x.csv", text.String()))
	cfg.DeviceColumn = "id"
	k := newTopic(t, 4)
	batches := 0
	k.onSend = func(n int) { batches++; require.LessOrEqual(t, n, 10_000) }
	s, err := replay.RunTo(t.Context(), cfg, k)
	require.NoError(t, err)
	require.Equal(t, devices*each, s.Records)
	require.Greater(t, batches, 4)
	partitionOf, last := map[string]int{}, map[string]int64{}
	d := decode.New(decode.Options{})
	for p := range k.keys {
		for i, key := range k.keys[p] {
			if seen, ok := partitionOf[key]; ok {
				require.Equal(t, seen, p)
			}
			partitionOf[key] = p
			require.Equal(t, kafkago.Murmur2Balancer{}.Balance(kafkago.Message{Key: []byte(key)}, 0, 1, 2, 3), p)
			got := d.Decode(decode.Record{Value: []byte(k.values[p][i])})
			require.Empty(t, got.Bad)
			require.Equal(t, key, "acme/"+got.Readings[0].Device)
			require.Greater(t, got.Readings[0].Time+1, last[key])
			last[key] = got.Readings[0].Time + 1
		}
	}
	require.Len(t, partitionOf, devices)
}

func TestRetries(t *testing.T) {
	file := writeFile(t, "x.csv", "time,a\n2026-01-01,1\n2026-01-02,2\n")
	synctest.Test(t, func(t *testing.T) {
		k := newTopic(t, 1)
		k.lost = true
		k.fail = func(_, attempt int) error {
			if attempt < 4 {
				return errors.New("connection reset")
			}
			return nil
		}
		s, err := replay.RunTo(t.Context(), config(file), k)
		require.NoError(t, err)
		require.Equal(t, 2, s.Records)
		_, values := k.all()
		require.Len(t, values, 8, "the whole batch again, in its order")
		require.Equal(t, values[:2], values[6:])
	})
	for _, c := range []struct {
		err  error
		took time.Duration
	}{
		{errors.New("connection refused"), 30 * time.Second},
		{kafkago.MessageSizeTooLarge, 0},
		{kafkago.TopicAuthorizationFailed, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newTopic(t, 1)
			k.fail = func(int, int) error { return c.err }
			begin := time.Now()
			s, err := replay.RunTo(t.Context(), config(file), k)
			require.ErrorIs(t, err, c.err)
			require.ErrorContains(t, err, "0 of at least 2 records are acknowledged")
			require.Zero(t, s.Records)
			require.Equal(t, c.took, time.Since(begin))
		})
	}
}

// When one partition gives up, a file of any length ends.
func TestOnePartitionGivesUp(t *testing.T) {
	var text strings.Builder
	text.WriteString("time,id,pad\n")
	for i := range 20_000 {
		text.WriteString("2026-01-01,d" + string(rune('A'+i%20)) + "," + strings.Repeat("x", 200) + "\n")
	}
	cfg := config(writeFile(t, "x.csv", text.String()))
	cfg.DeviceColumn = "id"
	k := newTopic(t, 4)
	k.fail = func(partition, attempt int) error {
		if partition == 2 {
			return kafkago.InvalidRecord
		}
		return nil
	}
	_, err := replay.RunTo(t.Context(), cfg, k)
	require.ErrorIs(t, err, kafkago.InvalidRecord)
}

func TestCancel(t *testing.T) {
	file := writeFile(t, "x.csv", "time,a\n2026-01-01,1\n2026-01-02,2\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := replay.RunTo(ctx, config(file), newTopic(t, 1))
	require.ErrorIs(t, err, context.Canceled)
}

func TestRate(t *testing.T) {
	file := writeFile(t, "x.csv", "time,a\n"+strings.Repeat("2026-01-01,1\n", 101))
	synctest.Test(t, func(t *testing.T) {
		cfg := config(file)
		cfg.Rate, cfg.Now = 10, time.Now
		k := newTopic(t, 1)
		begin, sent := time.Now(), 0
		k.onSend = func(n int) {
			sent += n
			require.InDelta(t, time.Since(begin).Seconds()*10, sent, 1.001)
		}
		_, err := replay.RunTo(t.Context(), cfg, k)
		require.NoError(t, err)
		require.Equal(t, 101, sent)
		require.Equal(t, 10*time.Second, time.Since(begin))
	})
}

func TestShiftToNow(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"x.csv", "time,a\n2020-01-01 00:00:05,1\nbad,9\n2020-01-01 00:00:10.5,2\n2020-01-01,3\n"},
		{"x.ndjson", `{"tenant":"acme","device":"m1","ts":1577836805000,"values":{"a":1}}` + "\nbad\n" +
			`{"tenant":"acme","device":"m1","ts":"2020-01-01T00:00:10.5Z","values":{"a":2}}` + "\n" +
			`{"tenant":"acme","device":"m1","ts":1577836800000,"values":{"a":3}}`},
		{"x.lp", "m a=1 1577836805000000000\nbad\nm a=2 1577836810500000000\nm a=3 1577836800000999999"},
	} {
		cfg := config(writeFile(t, c.name, c.text))
		cfg.ShiftTo = "now"
		s, _, values := run(t, cfg)
		var got []int64
		for _, v := range values {
			r := decode.New(decode.Options{}).Decode(decode.Record{Value: []byte(v)}).Readings[0]
			got = append(got, r.Time-now.UnixMilli())
		}
		require.Equal(t, []int64{-5500, 0, -10500}, got, c.name)
		require.Equal(t, now.Sub(time.Date(2020, 1, 1, 0, 0, 10, 5e8, time.UTC)).Milliseconds(), s.Shift)
		require.Equal(t, 1, s.BadLines)
	}
}

func TestSummaryIsReadable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, replay.Summary{
		File: "x.csv", Format: replay.CSV, Shift: -3_600_000, Records: 8, Readings: 7, Values: 14,
		BadLines: 12, BadLineNumbers: []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
	}.Print(&b))
	require.Equal(t, `x.csv             csv
times shifted by  -0.042 days
records           8
readings          7
values            14
bad lines         12  line 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …
`, b.String())
}

func TestProgressBar(t *testing.T) {
	var screen bytes.Buffer
	cfg := config(writeFile(t, "x.csv", "time,a\n"+strings.Repeat("2026-01-01,1\n", 5000)))
	cfg.Progress = &screen
	run(t, cfg)
	require.Contains(t, screen.String(), "publishing")
}

// A backfill asks for leave first, once for each tenant and the range of its times; each record then names it.
func TestBackfill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "old.ndjson")
	lines := `{"tenant":"acme","device":"a","ts":2,"values":{"x":1}}
{"tenant":"globex","device":"b","ts":0.5,"values":{"x":1}}
{"tenant":"acme","device":"a","ts":1,"values":{"x":1}}
{"device":"nobody's","ts":1,"values":{"x":1}}
`
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))
	granted := map[string]telemetry.Range{}
	cfg := replay.Config{File: file, Kafka: kafka.Config{Brokers: []string{"x:1"}}, Topic: "telemetry",
		Now: func() time.Time { return now }}
	cfg.Grant = func(_ context.Context, w control.BackfillWork) (string, error) {
		granted[w.Tenant] = w.Range
		require.Positive(t, w.RUs)
		require.Equal(t, map[telemetry.Day]int64{0: int64(w.Readings)}, w.Days)
		require.Equal(t, 1, w.Chunks)
		return "leave-for-" + w.Tenant, nil
	}
	k := newTopic(t, 1)
	_, err := replay.RunTo(t.Context(), cfg, k)
	require.NoError(t, err)
	require.Equal(t, map[string]telemetry.Range{"acme": {From: 1000, To: 2001}, "globex": {From: 500, To: 501}}, granted)
	require.Equal(t, []string{"leave-for-acme", "leave-for-globex", "leave-for-acme"}, k.grants)

	cfg.Grant = func(context.Context, control.BackfillWork) (string, error) { return "", errors.New("no leave") }
	k = newTopic(t, 1)
	_, err = replay.RunTo(t.Context(), cfg, k)
	require.EqualError(t, err, "no leave")
	require.Empty(t, k.values[0])
}

// What a backfill takes is said by chunks that are made as an ingester makes them.
func TestBackfillSaysWhatItTakes(t *testing.T) {
	var text strings.Builder
	for i := range 3 * 1440 {
		text.WriteString(`{"tenant":"acme","device":"d","ts":` + strconv.Itoa(i*60) + `,"values":{"x":` + strconv.Itoa(i%97) + `}}` + "\n")
	}
	cfg := config(writeFile(t, "old.ndjson", text.String()))
	var work control.BackfillWork
	cfg.Grant = func(_ context.Context, w control.BackfillWork) (string, error) { work = w; return "", nil }
	cfg.DeadLetters.DryRun = true
	k := newTopic(t, 1)
	_, err := replay.RunTo(t.Context(), cfg, k)
	require.NoError(t, err)
	require.Empty(t, k.values[0], "a dry run publishes nothing")
	require.Equal(t, 3, work.Chunks)
	require.Equal(t, map[telemetry.Day]int64{0: 1440, 1: 1440, 2: 1440}, work.Days)
	require.InDelta(t, 1170, work.Bytes, 120, "of rows that repeat themselves")
	require.InDelta(t, 3*ru.Stepped.Write(390, 5*ru.Scalar), work.RUs, 0.1)
}
