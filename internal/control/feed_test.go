package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// counter counts calls by operation, and fails those that are down.
type counter struct {
	calls map[string]*atomic.Int64
	down  map[string]*atomic.Bool
}

func count(docs *storetest.Documents) counter {
	c := counter{map[string]*atomic.Int64{}, map[string]*atomic.Bool{}}
	for _, op := range []string{storetest.OpCreate, storetest.OpReplace, storetest.OpList, storetest.OpRead,
		storetest.OpChanges} {
		c.calls[op], c.down[op] = new(atomic.Int64), new(atomic.Bool)
	}
	docs.Fault = func(op, _, _ string) *storetest.Fault {
		c.calls[op].Add(1)
		if c.down[op].Load() {
			return &storetest.Fault{Err: errors.New("no connection")}
		}
		return nil
	}
	return c
}

func (c counter) of(op string) int64 { return c.calls[op].Swap(0) }

// following runs a directory that follows a feed.
func following(t *testing.T) (*control.Directory, *storetest.Documents, counter) {
	docs := storetest.NewDocuments(t)
	c := count(docs)
	d := control.NewDirectory(control.DirectoryConfig{Documents: docs, Feed: docs, Every: 30 * time.Second,
		FeedEvery: 2 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	synctest.Wait()
	return d, docs, c
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// What another process stores is seen with the next look, and nothing is read but what has changed.
func TestFeedShowsChangeWithinOneInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, docs, c := following(t)
		require.EqualValues(t, 6, c.of(storetest.OpList), "the whole, once")
		other := control.NewDirectory(control.DirectoryConfig{Documents: docs})
		after(time.Minute)
		require.EqualValues(t, 30, c.of(storetest.OpChanges))
		require.Zero(t, c.of(storetest.OpList))
		require.Equal(t, time.Now(), d.Snapshot().ReadAt, "a look at the feed is as good as reading everything")

		_, err := other.Register(t.Context(), "acme")
		require.NoError(t, err)
		c.of(storetest.OpList)
		after(2 * time.Second)
		_, known := d.Snapshot().Tenant("acme")
		require.True(t, known)
		require.NoError(t, other.AskMonth(t.Context(), "chunks-2000-01", ""))
		c.of(storetest.OpList)
		after(2 * time.Second)
		require.True(t, d.Snapshot().HasContainer("chunks-2000-01"))
		require.Zero(t, c.of(storetest.OpList))
		after(10 * time.Minute)
		require.EqualValues(t, 6, c.of(storetest.OpList), "the whole, now and then")
	})
}

// A refresh gets what is stored now from the feed as well.
func TestRefreshFollowsTheFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, docs, c := following(t)
		other := control.NewDirectory(control.DirectoryConfig{Documents: docs})
		_, err := other.Register(t.Context(), "acme")
		require.NoError(t, err)
		c.of(storetest.OpList)
		v, err := d.Refresh(t.Context())
		require.NoError(t, err)
		_, known := v.Tenant("acme")
		require.True(t, known)
		require.Zero(t, c.of(storetest.OpList))
	})
}

// Without its feed a directory reads everything, as often as it does without one.
func TestDirectoryPollsWithoutFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, docs, c := following(t)
		c.of(storetest.OpList)
		c.down[storetest.OpChanges].Store(true)
		after(2 * time.Second)
		require.EqualValues(t, 6, c.of(storetest.OpList), "the look that fails reads everything")
		other := control.NewDirectory(control.DirectoryConfig{Documents: docs})
		_, err := other.Register(t.Context(), "acme")
		require.NoError(t, err)
		c.of(storetest.OpList)
		c.of(storetest.OpChanges)
		after(30 * time.Second)
		_, known := d.Snapshot().Tenant("acme")
		require.True(t, known)
		for range 10 { // queries that want newer orders of erasure ask for it too
			_, err = d.Refresh(t.Context())
			require.NoError(t, err)
		}
		require.EqualValues(t, 11*6, c.of(storetest.OpList))
		require.EqualValues(t, 1, c.of(storetest.OpChanges), "what fails is not tried each time")
		c.down[storetest.OpList].Store(true)
		old := d.Snapshot()
		after(time.Minute)
		require.Same(t, old, d.Snapshot())
		c.down[storetest.OpList].Store(false)
		c.down[storetest.OpChanges].Store(false)
		after(30 * time.Second)
		require.WithinDuration(t, time.Now(), d.Snapshot().ReadAt, 2*time.Second)
	})
}

// A full read that a replica answers which lags leaves what is known, and forgets what is gone for good.
func TestSnapshotDoesNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, docs, c := following(t)
		other := control.NewDirectory(control.DirectoryConfig{Documents: docs})
		_, err := other.Register(t.Context(), "acme")
		require.NoError(t, err)
		lagsFor := func(d time.Duration) {
			after(2 * time.Second) // the feed shows what was stored
			c.down[storetest.OpChanges].Store(true)
			docs.Lagging = func(string) bool { return true }
			c.of(storetest.OpList)
			after(d)
			require.NotZero(t, c.of(storetest.OpList))
		}
		heals := func() {
			docs.Lagging = nil
			c.down[storetest.OpChanges].Store(false)
			after(time.Minute)
		}
		acme, found, err := docs.Read(t.Context(), tenant.Kind, "acme")
		require.NoError(t, err)
		require.True(t, found)
		after(time.Second)
		acme.Body = bytes.Replace(acme.Body, []byte(`{`), []byte(`{"limits":{"ingest":{"devices":7}},`), 1)
		_, err = docs.Replace(t.Context(), acme)
		require.NoError(t, err)
		lagsFor(2 * time.Second)
		require.True(t, d.Snapshot().LimitsIngest(), "not the version before")
		heals()

		require.NoError(t, other.AskMonth(t.Context(), "chunks-2000-01", ""))
		lagsFor(2 * time.Second)
		require.True(t, d.Snapshot().HasContainer("chunks-2000-01"), "not as if it had not been created")
		heals()
		lagsFor(10 * time.Minute)
		require.False(t, d.Snapshot().HasContainer("chunks-2000-01"), "somebody has deleted it")
	})
}

// Whatever is stored, and whatever fails meanwhile, the feed gives the same copy as a full read.
func TestFeedAndFullReadAgree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	docs := storetest.NewDocuments(t)
	now := noon
	cfg := control.DirectoryConfig{Documents: docs, Now: func() time.Time { return now }, MaxMonths: 1000}
	writer := control.NewDirectory(cfg)
	cfg.Feed = docs
	follower := control.NewDirectory(cfg)
	failing := false
	docs.Fault = func(op, _, _ string) *storetest.Fault {
		if failing && random.IntN(3) == 0 {
			return &storetest.Fault{Err: errors.New("no connection")}
		}
		return nil
	}
	for i := range 300 {
		now = now.Add(time.Duration(random.IntN(100)) * time.Second)
		switch tenant := fmt.Sprintf("t%d", random.IntN(20)); random.IntN(3) {
		case 0:
			_, err := writer.Register(t.Context(), tenant)
			require.NoError(t, err)
		case 1:
			month := fmt.Sprintf("chunks-20%02d-0%d", random.IntN(30), 1+random.IntN(9))
			require.NoError(t, writer.AskMonth(t.Context(), month, ""))
		}
		failing = i%2 == 0
		_, err := follower.Refresh(t.Context())
		failing = false
		if err != nil {
			_, err = follower.Refresh(t.Context())
			require.NoError(t, err)
		}
		want, err := control.NewDirectory(control.DirectoryConfig{Documents: docs, Now: cfg.Now}).Refresh(t.Context())
		require.NoError(t, err)
		require.Equal(t, want.Tenants(), follower.Snapshot().Tenants())
		require.Equal(t, want.Containers(), follower.Snapshot().Containers())
		require.Equal(t, now, follower.Snapshot().ReadAt)
	}
}
