package tenantcopy_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/ops/tenantcopy"
	"binnacle/internal/store/storetest"

	"github.com/stretchr/testify/require"
)

// A copy that follows copies what the source stores, in new streams and of any month, and what an order erases, before
// it is told to end. Where nothing is new, it asks the target for nothing.
func TestCopyFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		var asked, seen atomic.Int64 // requests to the chunks of the target, and of the source
		p.from.Store.Fault = func(storetest.Op) *storetest.Fault { seen.Add(1); return nil }
		p.to.Store.Fault = func(storetest.Op) *storetest.Fault { asked.Add(1); return nil }
		end, ended := make(chan struct{}), make(chan tenantcopy.Result)
		go func() {
			r, err := tenantcopy.New(p.config()).Follow(t.Context(), end)
			require.NoError(t, err)
			ended <- r
		}()
		rounds := func(n int) {
			for range n {
				p.wait(10 * time.Second)
				time.Sleep(10*time.Second + time.Millisecond)
				synctest.Wait()
			}
		}
		equal := func() {
			t.Helper()
			for _, device := range []string{"m0", "m1", "m2", "m3"} {
				require.Equal(t, p.rows(p.from, device), p.rows(p.to, device), device)
			}
		}
		rounds(1)
		equal()
		before := asked.Load()
		seen.Store(0)
		rounds(40)
		require.Equal(t, before, asked.Load())
		require.LessOrEqual(t, seen.Load(), int64(40*8), "four keys in each of two containers")

		p.chunk(p.from, reading{1, 0, 20, 3, 2})
		p.chunk(p.from, reading{2, 1, -5, 0, 2}) // of an earlier container
		rounds(1)
		equal()
		p.chunk(p.from, reading{p.stream(p.from, "new"), 3, 20, 0, 2}) // a new device in a new stream
		rounds(1)
		equal()
		before = asked.Load()
		rounds(2) // what was stored a moment ago is seen again, and known
		require.Equal(t, before, asked.Load())

		p.order(p.from, erasure.Order{Device: "m0", To: erasure.EveryDay}, 100)
		rounds(2)
		require.Empty(t, p.rows(p.to, "m0"))
		close(end)
		rounds(1)
		r := <-ended
		require.True(t, r.IsEqual(), "%+v", r)
		require.Equal(t, 31, r.Chunks)
		equal()
	})
}

// A copy waits for an order of the target that is announced, reads no chunk meanwhile, and ends when the order is void.
func TestCopyWaitsForAnAnnouncedOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		orders := erasure.NewOrders(p.to.Documents, p.now)
		o, err := orders.Announce(t.Context(), erasure.Order{Tenant: "acme", Device: "m9", To: erasure.EveryDay, By: "test"})
		require.NoError(t, err)
		var asked atomic.Int64
		p.to.Store.Fault = func(storetest.Op) *storetest.Fault { asked.Add(1); return nil }
		ended := make(chan tenantcopy.Result)
		p.wait(10 * time.Minute)
		go func() { ended <- p.copy(p.config()) }()
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		before := asked.Load()
		time.Sleep(time.Hour)
		require.Equal(t, before, asked.Load())
		isVoid, err := orders.Void(t.Context(), p.to.Catalog, o)
		require.NoError(t, err)
		require.True(t, isVoid)
		p.requireEqual(<-ended)
	})
}
