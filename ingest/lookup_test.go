package ingest_test

import (
	"bytes"
	"context"
	"maps"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/decode"
	"binnacle/internal/control"

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
