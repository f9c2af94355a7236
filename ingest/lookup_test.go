package ingest_test

import (
	"bytes"
	"context"
	"maps"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// slowSchemas is a registry that does not answer before it is closed, and then has no schema.
type slowSchemas chan struct{}

func (s slowSchemas) Schema(uint32) (decode.Schema, bool) {
	select {
	case <-s:
		return decode.Schema{Fault: "none"}, true
	default:
		return decode.Schema{}, false
	}
}

func (s slowSchemas) Fetch(ctx context.Context, _ uint32) error { return wait(ctx, s) }

// slowDirectory does not register globex before open is closed.
type slowDirectory struct {
	ingest.Directory
	open chan struct{}
}

func (d slowDirectory) Register(ctx context.Context, tenant string) (*control.Snapshot, error) {
	if tenant == "globex" {
		if err := wait(ctx, d.open); err != nil {
			return nil, err
		}
	}
	return d.Directory.Register(ctx, tenant)
}

func wait(ctx context.Context, open chan struct{}) error {
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// While a partition waits for a schema, or for a tenant to be registered, its bins are cut and committed, and the
// records behind it are taken once it is there.
func TestPartitionGoesOnDuringALookup(t *testing.T) {
	for _, lacking := range []string{"schema", "tenant"} {
		t.Run(lacking, func(t *testing.T) {
			r := newRig(t, 1)
			first := r.message("m1", past, 1)
			before := maps.Clone(r.want)
			blocked := kafkago.Message{Time: time.UnixMilli(past), Value: []byte{0, 0, 0, 0, 7}}
			if lacking == "tenant" {
				blocked = r.message("m2", past, 1)
				blocked.Value = bytes.Replace(blocked.Value, []byte("acme"), []byte("globex"), 1)
			}
			open := make(chan struct{})
			run := func() (stop func()) {
				return r.run(r.ingester(func(c *ingest.Config, s *ingest.Stores) {
					s.Schemas, s.Directory, c.Patience = slowSchemas(open), slowDirectory{s.Directory, open}, time.Hour
				}))
			}
			stop := run()
			r.publish(0, first, blocked)
			require.Eventually(t, func() bool { return r.committed(0) == 1 }, patience, 2*time.Millisecond,
				"the reading before it is not stored")
			require.Equal(t, before, r.Stored())
			stop()
			stop = run() // a run ends while it waits
			r.publish(0, r.message("m1", past+1, 2))
			stop()
			stop = run()
			close(open)
			r.settled()
			stop()
			r.whole()
		})
	}
}

// While tenants wait to be registered, by a store that does not answer, all readings of others behind them are stored.
func TestRegistrationDelaysNoOtherTenant(t *testing.T) {
	r := newRig(t, 1)
	open := make(chan struct{})
	in := r.ingester(func(c *ingest.Config, s *ingest.Stores) {
		s.Directory, c.Patience = slowDirectory{s.Directory, open}, time.Hour
	})
	stop := r.run(in)
	later := r.message("m2", past, 1)
	before := maps.Clone(r.want)
	delete(before, ingesttest.Series{Device: "m2", Metric: "a", Time: past})
	later.Value = bytes.Replace(later.Value, []byte("acme"), []byte("globex"), 1)
	r.publish(0, later)
	for i := range 100 {
		m := r.message("m1", past+int64(i), float64(i))
		before[ingesttest.Series{Device: "m1", Metric: "a", Time: past + int64(i)}] = telemetry.FloatValue(float64(i))
		r.publish(0, m)
	}
	require.Eventually(t, func() bool { return len(r.Stored()) == 100 }, patience, 2*time.Millisecond)
	require.Equal(t, before, r.Stored())
	require.LessOrEqual(t, r.committed(0), int64(0), "the one that waits holds the floor")
	limits, err := in.Limits(t.Context(), "globex")
	require.NoError(t, err)
	require.Equal(t, "registration", limits.Deferred[0].Limit)
	close(open)
	r.settled()
	stop()
	r.whole()
}
