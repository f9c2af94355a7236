package cosmos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"binnacle/internal/store"
	"binnacle/sharding/epk"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Bounds of one loop over pages. The SDK bounds its own in the same way.
const (
	maxPages     = 1_000_000 // pages of a query: 4 TB
	maxListPages = 10_000    // pages of containers and of changes
	maxIdlePages = 1_000     // pages in a row, without anything new
	maxIdleFeed  = 100       // the same for changes
)

// errNoEnd says that the pages of an answer have no end, or that one leads to itself.
var errNoEnd = errors.New("the store does not come to an end")

// paging bounds a loop over pages: what the store says may lead nowhere. The zero value has seen none, and bounds a
// query.
type paging struct {
	most, mostIdle int // pages; 0: maxPages and maxIdlePages
	pages, idle    int
	asked          string
}

// next counts a page of items, news of them new, that leads to a continuation. It fails where the pages have no end.
func (p *paging) next(items, news int, continuation string) error {
	most, mostIdle := cmp.Or(p.most, maxPages), cmp.Or(p.mostIdle, maxIdlePages)
	p.pages++
	if p.idle++; news > 0 {
		p.idle = 0
	}
	same := p.pages > 1 && continuation == p.asked
	p.asked = continuation
	switch {
	case same && items > 0:
		return fmt.Errorf("%w: page %d leads to itself", errNoEnd, p.pages)
	case p.idle >= mostIdle:
		return fmt.Errorf("%w: %d pages in a row have nothing new", errNoEnd, p.idle)
	case p.pages >= most:
		return fmt.Errorf("%w: there are more than %d pages", errNoEnd, most)
	}
	return nil
}

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
