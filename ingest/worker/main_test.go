package worker_test

import (
	"fmt"
	"testing"

	"binnacle/ingest/worker"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(guard{m}) }

// guard fails the tests of the package when one of them changes the open part that all idle chains share.
type guard struct{ *testing.M }

func (g guard) Run() int {
	before := worker.OpenPart()
	code := g.M.Run()
	if after := worker.OpenPart(); after != before {
		fmt.Printf("FAIL: idle chains share\n%s, and not\n%s\n", after, before)
		return 1
	}
	return code
}
