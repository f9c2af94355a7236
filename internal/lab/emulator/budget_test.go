package emulator_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/emulator/engine"
)

// refusal returns what a 429 says: the substatus and how long to wait.
func refusal(t testing.TB, err error) (substatus string, wait time.Duration) {
	t.Helper()
	var re *azcore.ResponseError
	require.True(t, errors.As(err, &re), "%v", err)
	require.Equal(t, http.StatusTooManyRequests, re.StatusCode)
	ms, convErr := strconv.Atoi(re.RawResponse.Header.Get("x-ms-retry-after-ms"))
	require.NoError(t, convErr)
	require.Positive(t, ms)
	return re.RawResponse.Header.Get("x-ms-substatus"), time.Duration(ms) * time.Millisecond
}

// readsUntilRefused reads a database until that is answered 429.
func readsUntilRefused(t testing.TB, db *azcosmos.DatabaseClient, most int) (n int, err error) {
	t.Helper()
	for ; n < most; n++ {
		if _, err = db.Read(context.Background(), nil); err != nil {
			return n, err
		}
	}
	return n, nil
}

func TestMetadataHasABudgetOfItsOwn(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   emulator.Config
		reads int
	}{
		{"240 RU/s", emulator.Config{}, 120},
		{"lowered", emulator.Config{Limits: emulator.Limits{MetadataRUs: 30}}, 15},
		{"unlimited", emulator.Config{Unlimited: true}, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := newClock()
			c.cfg.Now = now.now
			s := open(t, c.cfg)
			co := create(t, client(t, s), hierarchical("chunks"), 400)
			db, err := client(t, s).NewDatabase("db")
			require.NoError(t, err)
			now.advance(time.Second + 400*time.Millisecond)
			n, err := readsUntilRefused(t, db, 500)
			require.Equal(t, c.reads, n, "a read is 2 RU")
			if c.cfg.Unlimited {
				require.NoError(t, err)
				return
			}
			substatus, wait := refusal(t, err)
			require.Equal(t, "3210", substatus)
			require.Equal(t, 600*time.Millisecond, wait, "the rest of the second")
			spend(t, co, 20)
			now.advance(wait)
			_, err = db.Read(context.Background(), nil)
			require.NoError(t, err)
			require.EqualValues(t, 1, s.Overview().Metadata.Throttled)
		})
	}
}

// waitFor does what 429s say, by the clock, until a request is served.
func waitFor(t testing.TB, now *clock, request func() error) (waited time.Duration) {
	t.Helper()
	for {
		err := request()
		if err == nil {
			return waited
		}
		_, wait := refusal(t, err)
		require.LessOrEqual(t, wait, 500*time.Millisecond)
		now.advance(wait)
		waited += wait
	}
}

func TestAutoscaleScales(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, PhysicalPartitions: 2})
	co := createAutoscale(t, client(t, s), hierarchical("chunks"), 4000)
	at := func() engine.Provision { return s.Overview().Containers[0].Throughput }
	require.InDelta(t, 400, at().Scaled, 1e-9, "idle: a tenth")
	require.True(t, at().Autoscale)
	require.InDelta(t, 1000, at().Minimum, 1e-9)

	spent := spend(t, co, 1e9)
	require.InDelta(t, 2000, spent, 20, "all of one partition, at once")
	now.advance(time.Second)
	require.InDelta(t, 2200, at().Scaled, 1e-9, "one partition at its maximum, the other at a tenth")
	require.InDelta(t, 2200, at().ScaledHour, 1e-9)
	now.advance(10 * time.Minute)
	spend(t, co, 700)
	now.advance(time.Second)
	require.InDelta(t, 900, at().Scaled, 20)
	require.InDelta(t, 2200, at().ScaledHour, 1e-9, "the hour is at its highest second")
	now.advance(time.Hour)
	require.InDelta(t, 400, at().Scaled, 1e-9)
	require.InDelta(t, 400, at().ScaledHour, 1e-9)
}

// createAutoscale is create with autoscale throughput.
func createAutoscale(
	t testing.TB, c *azcosmos.Client, props azcosmos.ContainerProperties, most int32,
) *azcosmos.ContainerClient {
	t.Helper()
	ctx := context.Background()
	_, err := c.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "db"}, nil)
	require.NoError(t, err)
	db, err := c.NewDatabase("db")
	require.NoError(t, err)
	throughput := azcosmos.NewAutoscaleThroughputProperties(most)
	_, err = db.CreateContainer(ctx, props, &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput})
	require.NoError(t, err)
	co, err := db.NewContainer(props.ID)
	require.NoError(t, err)
	return co
}
