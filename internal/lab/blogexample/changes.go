package blogexample

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// changes follows the change feed of one container, over all its physical partitions.
type changes struct {
	of    *azcosmos.ContainerClient
	token *string // where to go on; nil for the beginning
}

// page is how many changed items are asked for at once.
const page = 100

// next returns changed items in their newest version; none when the feed has been read to its end. Those of one logical
// partition come in the order of their last changes.
func (c *changes) next(ctx context.Context, cost *Cost) ([]json.RawMessage, error) {
	all := azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}
	r, err := c.of.ReadChangeFeed(ctx, &azcosmos.ChangeFeedOptions{MaxItemCount: page, FeedRange: &all,
		Continuation: c.token})
	if err != nil {
		return nil, fmt.Errorf("change feed of %s: %w", c.of.ID(), err)
	}
	cost.count(r.Response)
	if r.ContinuationToken != "" {
		c.token = &r.ContinuationToken
	}
	items := make([]json.RawMessage, len(r.Items))
	for i, item := range r.Items {
		items[i] = item
	}
	return items, nil
}
