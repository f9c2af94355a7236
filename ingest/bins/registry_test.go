package bins_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// A slot is a hint: readings go to the device that they name in their tenant, whatever their slot says. Tenants have
// devices of the same names at other places, and a slot may lie behind the last place, as after devices were forgotten.
func TestWrongSlotIsNotBelieved(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 0))
	b := bins.New(bins.Config{Hold: time.Hour}, admit.Log{})
	slots, want := make([]int32, 8), map[admit.Chain]int{}
	for offset := range int64(2000) {
		tenant, device := fmt.Sprint("tenant", rnd.IntN(3)), rnd.IntN(len(slots))
		r := telemetry.Reading{Tenant: tenant, Device: fmt.Sprint(device), Slot: &slots[device],
			Fields: []telemetry.Field{{Metric: "a", Value: telemetry.IntValue(offset)}}}
		if rnd.IntN(10) == 0 {
			slots[device] = rnd.Int32N(20)
		}
		b.Take(offset, []telemetry.Reading{r}, time.UnixMilli(0))
		want[admit.ChainOf(&r)]++
	}
	for key, readings := range want {
		require.Equal(t, readings, b.AddDevice(key.Tenant, key.Device).Chains.Bin.Readings(), "%+v", key)
	}
}
