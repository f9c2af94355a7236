package emulator_test

import (
	"flag"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400) // many small accounts come and go
	}
	goleak.VerifyTestMain(m)
}
