package querytest

import (
	"sync"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
)

// HeadFixture returns the heads of an empty world, for the suite of store.Heads.
func (w *World) HeadFixture() storetest.HeadFixture {
	var (
		mu       sync.Mutex // guards what is stored
		open     []Record
		position int64
	)
	show := func() { w.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: position, Owner: 1}, open...) }
	show()
	return storetest.HeadFixture{
		Heads: w.Heads,
		Take: func(offset int64, readings ...telemetry.Reading) {
			for i, r := range readings {
				open = append(open, Record{Position: telemetry.Position{Stream: 1, Offset: offset + int64(i)}, Reading: r})
			}
			position = offset + int64(len(readings))
			show()
		},
		Store: func() {
			bins := make(map[chainOf][]Record)
			for _, r := range open {
				of := chainOf{r.Tenant, r.Device, store.Chain{Day: telemetry.DayOf(r.Time), Stream: 1}}
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
}
