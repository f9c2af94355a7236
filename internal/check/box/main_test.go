package box_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/catalog"
	"binnacle/internal/telemetry"
)

// TestMain lets one goroutine run at a time, and no collection begin by itself: which of two goroutines that could run
// goes first then hardly ever depends on the machine.
func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(1 << 30)
	makeShared()
	os.Exit(m.Run())
}

// makeShared makes what all runs share and must not belong to the bubble of one: the codecs of the catalog and of
// chunks.
func makeShared() {
	id, doc, err := catalog.Encode(catalog.Page{Entries: []catalog.Entry{{Device: strings.Repeat("d", 100)}}})
	if err == nil {
		_, err = catalog.Decode(id, doc)
	}
	var rows binning.Rows
	for i := range 256 { // texts with repeats are what zstd is for
		rows.Append(int64(i), telemetry.Reading{Device: "d", Time: int64(i), Fields: []telemetry.Field{{Metric: "m",
			Value: telemetry.TextValue(fmt.Sprintf("%d of the same long text, and %d again", i*i*7919, i))}}})
	}
	if err == nil {
		_, err = chunk.Encode(chunk.Header{Device: "d", TenantShard: "t~00", Through: 256, After: -1},
			rows.Frame(telemetry.Range{To: telemetry.DayMillis}, nil))
	}
	if err != nil {
		panic(err)
	}
}

// collect frees what a run has left, also in pools: they would lend it to another bubble.
func collect() {
	runtime.GC()
	runtime.GC()
}
