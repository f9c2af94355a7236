package querytest_test

import (
	"testing"
	"time"

	"binnacle/internal/store/storetest"
	"binnacle/query/querytest"
)

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
