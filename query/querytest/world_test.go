package querytest_test

import (
	"sync"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query/querytest"
)

// The heads of a world keep the contract of store.Heads.
func TestHeadsOfAWorld(t *testing.T) {
	storetest.RunHeads(t, func(t *testing.T) storetest.HeadFixture {
		w := querytest.New(t, time.Date(2024, 10, 28, 12, 0, 0, 0, time.UTC))
		var open []querytest.Record
		position := int64(0)
		show := func() {
			w.Heads.Become(store.PartitionHead{Stream: 1, Position: position}, open...)
		}
		show()
		var mu sync.Mutex // guards what is stored
		return storetest.HeadFixture{
			Heads: w.Heads,
			Take: func(offset int64, readings ...telemetry.Reading) {
				for i, r := range readings {
					open = append(open, querytest.Record{Position: telemetry.Position{Stream: 1, Offset: offset + int64(i)}, Reading: r})
				}
				position = offset + int64(len(readings))
				show()
			},
			Store: func() {
				type chain struct {
					tenant, device string
					day            telemetry.Day
				}
				bins := make(map[chain][]querytest.Record)
				for _, r := range open {
					of := chain{r.Tenant, r.Device, telemetry.DayOf(r.Time)}
					bins[of] = append(bins[of], r)
				}
				mu.Lock()
				for _, records := range bins {
					w.Chunk(records...)
				}
				mu.Unlock()
				open = nil
				show()
			},
			Documents: func() (docs [][]byte) {
				mu.Lock()
				defer mu.Unlock()
				for _, d := range w.Store.Documents() {
					docs = append(docs, d.Doc)
				}
				return docs
			},
		}
	})
}

// The log of a world keeps the contract of store.Log.
func TestLogOfAWorld(t *testing.T) {
	storetest.RunLog(t, func(t *testing.T) storetest.LogFixture {
		w := querytest.New(t, time.Date(2024, 10, 28, 12, 0, 0, 0, time.UTC))
		ends := make([]int64, 2)
		w.Log.Set(ends...)
		return storetest.LogFixture{Log: w.Log, Topic: querytest.Topic, Partitions: 2, Append: func(partition, records int) {
			ends[partition] += int64(records)
			w.Log.Set(ends...)
		}}
	})
}
