package worker_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"

	"github.com/stretchr/testify/require"
)

// values returns a message of device d0 with these values, as a record.
func values(offset int64, object string) admit.Record {
	return admit.Record{Offset: offset, Time: start, Value: fmt.Appendf(nil,
		`{"tenant":"acme","device":"d0","ts":%d,"values":%s}`, start+offset, object)}
}

// Where tenants must be registered, a record may name several that are not.
func TestSeveralUnknownTenantsInOneRecord(t *testing.T) {
	message := func(tenant string) string {
		return fmt.Sprintf(`{"tenant":%q,"device":"d0","ts":%d,"values":{"a":1}}`, tenant, start)
	}
	w := newWorld(t, []admit.Record{
		{Offset: 0, Time: start, Value: []byte("[" + message("one") + "," + message("two") + "," + message("three") + "]")},
	})
	l := w.worker(func(c *ingest.Config) {
		c.Register = false
		c.Now = func() time.Time { w.now = w.now.Add(time.Millisecond); return w.now }
	})
	ctx := ingesttest.Deadline(t)
	require.NoError(t, l.Take(ctx, w.log[0]))
	require.NoError(t, l.Finish(ctx))
	require.Len(t, w.deadLetters, 1)
	require.Equal(t, "0-2", w.deadLetters[0].Elements.String())
}

// registry has a schema as soon as it was asked for it often enough: before, it is down.
type registry struct {
	down  int
	asked int
}

func (r *registry) Schema(uint32) (decode.Schema, bool) {
	return decode.Schema{Type: "JSON"}, r.asked > r.down
}

func (r *registry) Fetch(context.Context, uint32) error {
	if r.asked++; r.asked <= r.down {
		return errors.New("down")
	}
	return nil
}

// A registry that is down holds up the records that need it, and loses none.
func TestRegistryOutage(t *testing.T) {
	r := values(0, `{"a":1}`)
	r.Value = append([]byte{0, 0, 0, 0, 7}, r.Value...)
	w, schemas := newWorld(t, []admit.Record{r, values(1, `{"a":2}`)}), &registry{down: 3}
	l := w.process(func(_ *ingest.Config, s *ingest.Stores) { s.Schemas = schemas })
	ctx := ingesttest.Deadline(t)
	for _, r := range w.log {
		require.NoError(t, l.Take(ctx, r))
	}
	require.Equal(t, 4, schemas.asked)
	require.NoError(t, l.Finish(ctx))
	require.Empty(t, w.deadLetters)
	require.Len(t, w.Stored(), 2)
}

// One message with a text that fits no document must not end the process, nor hold up others.
func TestTextTooLargeForDocument(t *testing.T) {
	random := make([]byte, 70_000)
	rnd := rand.NewChaCha8([32]byte{1})
	_, _ = rnd.Read(random)
	w := newWorld(t, []admit.Record{
		values(0, fmt.Sprintf(`{"a":1,"log":%q}`, base64.StdEncoding.EncodeToString(random))),
		values(1, `{"a":2}`),
	})
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	for _, r := range w.log {
		require.NoError(t, l.Take(ctx, r))
	}
	require.NoError(t, l.Finish(ctx))
	require.Len(t, w.Stored(), 1)
	require.Len(t, w.deadLetters, 1)
	require.Equal(t, decode.TooLarge, w.deadLetters[0].Bad.Reason)
}

// A metric's name is longer in a document than in a message of line protocol, which has what all names share once. So
// has a chunk of many metrics.
func TestMessageWithManyMetrics(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s,d=d0 ", strings.Repeat("m", 190))
	for i := range 16_000 {
		fmt.Fprintf(&b, "%x=1,", i)
	}
	lines := admit.Record{
		Time: start, Value: []byte(strings.TrimSuffix(b.String(), ",")),
		Headers: []admit.Header{{Key: "content-type", Value: []byte("text/plain; format=influx")}},
	}
	w := newWorld(t, []admit.Record{lines, values(1, `{"a":2}`)})
	l, ctx := w.worker(func(c *ingest.Config) {
		c.Decode = decode.Options{Tenant: "acme",
			Lines: decode.Lines{DeviceTag: "d"}}
	}), ingesttest.Deadline(t)
	for _, r := range w.log {
		require.NoError(t, l.Take(ctx, r))
	}
	require.NoError(t, l.Finish(ctx))
	require.Empty(t, w.deadLetters)
	require.True(t, len(w.Stored()) == 16_001, "%d values are stored", len(w.Stored()))
}

// A device that invents names fills its entry in the catalog, and no more: a store refuses documents above two
// megabytes.
func TestDeviceInventingNames(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	name := strings.Repeat("n", 150)
	for i := range int64(60) {
		var b strings.Builder
		for k := range 300 {
			fmt.Fprintf(&b, `,"%s%d.%d":1`, name, i, k)
		}
		require.NoError(t, l.Take(ctx, values(i, "{"+b.String()[1:]+"}")))
	}
	require.NoError(t, l.Finish(ctx))
	require.Equal(t, int64(60), l.Floor())
	d, ok := w.Catalog.Entry("acme", "d0")
	require.True(t, ok)
	size := 0
	for _, m := range d.MetricNames() {
		size += len(m)
	}
	require.Less(t, size, 1<<20)
	require.Greater(t, size, 100<<10, "names are listed as far as they fit")
}

// Event times at and beyond the ends of what there are days for.
func TestExtremeTimes(t *testing.T) {
	times := []string{"-1", "0", "-9223372036854775808", "9223372036854775807", "253402300799999", "253402300800000",
		`"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59.999Z"`, "86399999", "86400000"}
	for _, stamp := range []int64{start, -1, 0, 253402300799999, 1<<63 - 1} {
		w := newWorld(t, nil)
		w.Chunks.CreateContainer("chunks-1970-01")
		w.Chunks.CreateContainer("chunks-9999-12")
		l, ctx := w.worker(nil), ingesttest.Deadline(t)
		for i, at := range times {
			require.NoError(t, l.Take(ctx, admit.Record{Offset: int64(i), Time: stamp,
				Value: fmt.Appendf(nil, `{"tenant":"acme","device":"d0","ts":%s,"values":{"a":1}}`, at)}))
		}
		require.NoError(t, l.Finish(ctx))
		require.Equal(t, len(times), len(w.Stored())+len(w.deadLetters))
		require.EqualValues(t, len(times), l.Floor())
	}
}
