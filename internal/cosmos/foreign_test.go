package cosmos_test

import (
	"fmt"
	"testing"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/sharding/epk"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"
)

// A container of another database is described, and each physical partition is asked by itself: all documents are found
// once, each in the range of its key.
func TestForeignReadsAnyDatabase(t *testing.T) {
	server, c := openEmulator(t, emulator.Config{Unlimited: true, PhysicalPartitions: 5}, nil)
	credential, err := azcosmos.NewKeyCredential(emulator.Key)
	require.NoError(t, err)
	sdk, err := azcosmos.NewClientWithKey(server.Endpoint(), credential, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: server.Transport()}})
	require.NoError(t, err)
	defer sdk.Close()
	_, err = sdk.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "theirs"}, nil)
	require.NoError(t, err)
	db, err := sdk.NewDatabase("theirs")
	require.NoError(t, err)
	sold := azcosmos.NewAutoscaleThroughputProperties(4000)
	_, err = db.CreateContainer(t.Context(), azcosmos.ContainerProperties{
		ID: "readings",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Kind: azcosmos.PartitionKeyKindHash, Version: 2,
			Paths: []string{"/a/b"}},
		IndexingPolicy: &azcosmos.IndexingPolicy{Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
			IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}},
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/big/*"}, {Path: "/v/?"}}},
	}, &azcosmos.CreateContainerOptions{ThroughputProperties: &sold})
	require.NoError(t, err)
	items, err := sdk.NewContainer("theirs", "readings")
	require.NoError(t, err)
	const documents = 300
	for i := range documents {
		_, err := items.CreateItem(t.Context(), azcosmos.NewPartitionKeyNumber(float64(i)),
			fmt.Appendf(nil, `{"id":"%d","a":{"b":%d}}`, i, i), nil)
		require.NoError(t, err)
	}

	f := c.Foreign("theirs", "readings")
	about, err := f.Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"/a/b"}, about.Key)
	require.Equal(t, 2, about.Version)
	require.Equal(t, 4000, about.RUs)
	require.True(t, about.Autoscale)
	for path, want := range map[string]bool{"/a/b": true, "/big/x": false, "/v": false, "/vv": true} {
		require.Equal(t, want, about.Indexed(path), path)
	}
	ranges, err := f.Ranges(t.Context())
	require.NoError(t, err)
	require.Len(t, ranges, 5)
	before, seen := f.Charged(), 0
	for _, r := range ranges {
		err := f.Query(t.Context(), r.ID, cosmos.ForeignQuery{SQL: "SELECT VALUE c.a.b FROM c WHERE c.a.b >= @p0",
			Values: []any{0}, MaxRUs: 100}, func(item []byte) error {
			var n float64
			_, err := fmt.Sscan(string(item), &n)
			require.True(t, r.Contains(epk.Hash(epk.Number(n))), "%s in %s", item, r.ID)
			seen++
			return err
		})
		require.NoError(t, err)
	}
	require.Equal(t, documents, seen)
	require.Greater(t, f.Charged(), before)
}

// A split between two requests is explained.
func TestForeignExplainsASplit(t *testing.T) {
	server, c := openEmulator(t, emulator.Config{Unlimited: true, PhysicalPartitions: 2}, nil)
	f := c.Foreign("binnacle", "catalog")
	ranges, err := f.Ranges(t.Context())
	require.NoError(t, err)
	require.NoError(t, server.Split("binnacle", "catalog", ranges[0].ID))
	err = f.Query(t.Context(), ranges[0].ID, cosmos.ForeignQuery{SQL: "SELECT * FROM c", MaxRUs: 9},
		func([]byte) error { return nil })
	require.ErrorContains(t, err, "its physical partitions were split meanwhile, run it again")
}
