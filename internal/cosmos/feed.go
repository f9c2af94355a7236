package cosmos

import (
	"context"
	"fmt"
	"time"

	"binnacle/internal/store"
	"binnacle/sharding/epk"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Feed returns what changes among the control documents.
func (c *Client) Feed() store.Feed { return &feed{c} }

// feed is store.Feed: the change feed of the container control.
type feed struct{ c *Client }

var everywhere = azcosmos.FeedRange{MinInclusive: epk.Min, MaxExclusive: epk.Max}

// Changes implements store.Feed. A mark is the SDK's continuation.
func (f *feed) Changes(ctx context.Context, mark string, since time.Time) ([]store.Document, string, error) {
	var changed []store.Document
	loop, seen := paging{most: maxListPages, mostIdle: maxIdleFeed}, make(map[string]bool)
	for {
		page, err := f.page(ctx, mark, since)
		if err != nil {
			return nil, "", fmt.Errorf("changes of control documents: %w", err)
		}
		news := 0
		for _, item := range page.Items {
			doc, err := controlDocuments(f.c).withoutIdentity(item)
			if err != nil {
				return nil, "", fmt.Errorf("changes of control documents: %w", err)
			}
			if version := doc.Kind + "/" + doc.ID + "/" + doc.ETag; !seen[version] {
				seen[version] = true
				changed = append(changed, doc)
				news++
			}
		}
		mark = page.ContinuationToken
		if len(page.Items) == 0 {
			return changed, mark, nil
		}
		if err := loop.next(len(page.Items), news, mark); err != nil {
			return nil, "", fmt.Errorf("changes of control documents: the feed never says that nothing is new: %w", err)
		}
	}
}

func (f *feed) page(ctx context.Context, mark string, since time.Time) (page azcosmos.ChangeFeedResponse, err error) {
	o := azcosmos.ChangeFeedOptions{FeedRange: &everywhere, StartFrom: &since}
	if mark != "" {
		o.Continuation, o.StartFrom = &mark, nil
	}
	to := call{operation: "control_changes", container: store.ControlContainer}
	_, err = f.c.inContainer(ctx, to, func(ctx context.Context,
		container *azcosmos.ContainerClient) (azcosmos.Response, error) {
		var err error
		page, err = container.ReadChangeFeed(ctx, &o)
		return page.Response, err
	})
	return page, err
}
