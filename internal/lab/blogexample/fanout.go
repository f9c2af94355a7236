package blogexample

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// rangeHeader addresses a request to one physical partition.
const rangeHeader = "x-ms-documentdb-partitionkeyrangeid"

// mergeNewest asks every physical partition for its newest posts and merges the answers. The service's
// gateway does not serve an ORDER BY over several of them: SDKs with a query engine do this inside, and
// azcosmos has none. Nor does it tell the ids of the partitions, so they come from the emulator.
func (b *Blog) mergeNewest(ctx context.Context, sql string, cost *Cost) ([]Post, error) {
	partitions, err := b.server.Partitions(database, "posts")
	if err != nil {
		return nil, err
	}
	var all []Post
	for _, p := range partitions {
		ctx := policy.WithHTTPHeader(ctx, http.Header{rangeHeader: {p.ID}})
		posts, err := ask[Post](ctx, query{from: b.posts, sql: sql, key: azcosmos.NewPartitionKey()}, cost)
		if err != nil {
			return nil, fmt.Errorf("physical partition %s: %w", p.ID, err)
		}
		all = append(all, posts...)
	}
	slices.SortFunc(all, newer)
	return all[:min(len(all), FrontPage)], nil
}
