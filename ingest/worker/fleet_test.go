package worker_test

import (
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/journal/spill"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// convoy is trucks of ten metrics that report in turns, and the log of what they say.
type convoy struct {
	trucks []*fleet.Truck
	from   time.Time
	every  time.Duration
	said   int
}

func newConvoy(trucks int, from time.Time, every time.Duration) *convoy {
	c := &convoy{trucks: make([]*fleet.Truck, trucks), from: from, every: every}
	for i := range c.trucks {
		c.trucks[i] = fleet.NewTruck(1, i, from)
	}
	return c
}

const valuesEach = 10

// next returns the next message of every truck.
func (c *convoy) next() (records []admit.Record) {
	at := c.from.Add(time.Duration(c.said/len(c.trucks)) * c.every)
	for _, truck := range c.trucks {
		r := telemetry.Reading{Tenant: "acme", Device: truck.ID(), Time: at.UnixMilli(), Fields: truck.Next(at),
			Tags: truck.Tags()}
		records = append(records, admit.Record{Offset: int64(c.said), Time: r.Time, Value: decode.AppendJSON(nil, r)})
		c.said++
	}
	return records
}

// shelf returns spill files in a directory that goes with the test.
func shelf(tb testing.TB) binning.Shelf {
	files, err := spill.Open(tb.TempDir())
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, files.Close()) })
	return ingest.ShelfOf(files)
}
