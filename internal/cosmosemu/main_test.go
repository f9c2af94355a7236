package cosmosemu_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // many small accounts come and go
	goleak.VerifyTestMain(m)
}
