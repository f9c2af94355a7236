package cosmos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"time"

	"binnacle/internal/store"
	"binnacle/sharding/epk"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// query is a parameterised question to one container: under one full partition key, or over all when the key is nil.
type query struct {
	sql    string
	params []azcosmos.QueryParameter
}

// dynamicPage lets the service choose the size of a page, up to 4 MB.
const dynamicPage = -1

// each asks page by page and calls yield with every item; yield must not keep its bytes. An error of yield ends it and
// is returned as it is. The cost is added to usage as it goes; charge, unless it is nil, is called for each page before
// its items, and an error of it ends the query too.
func (c *Client) each(
	ctx context.Context, to call, q query, usage *store.Usage, charge func(rus float64) error,
	yield func(item []byte) error,
) error {
	var token *string
	var p page
	var loop paging
	defer p.release()
	for {
		var answer azcosmos.QueryItemsResponse
		receipt, err := c.inContainer(ctx, to, func(ctx context.Context,
			container *azcosmos.ContainerClient) (azcosmos.Response, error) {
			var err error
			answer, err = p.ask(ctx, container.NewQueryItemsPager(q.sql, partitionKey(to.key), &azcosmos.QueryOptions{
				QueryParameters: q.params, PageSizeHint: dynamicPage, ContinuationToken: token,
			}))
			return answer.Response, err
		})
		usage.RUs += receipt.RUs
		usage.Throttled += receipt.Throttled
		if err != nil {
			return err
		}
		if usage.Date.IsZero() {
			usage.Date = dateOf(answer.RawResponse, nil)
		}
		if charge != nil {
			if err := charge(receipt.RUs); err != nil {
				return err
			}
		}
		before := usage.Documents
		err = p.each(func(item []byte) error {
			usage.Documents++
			return yield(item)
		})
		if err != nil {
			return err
		}
		if token = answer.ContinuationToken; token == nil || to.maxRUs > 0 && usage.RUs > to.maxRUs {
			return nil
		}
		if err := loop.next(usage.Documents-before, usage.Documents-before, *token); err != nil {
			return err
		}
	}
}

// partitionKey returns a full key of strings; without levels it is the empty key, which asks all partitions.
func partitionKey(levels []string) azcosmos.PartitionKey {
	k := azcosmos.NewPartitionKey()
	for _, l := range levels {
		k = k.AppendString(l)
	}
	return k
}

func param(name string, value any) azcosmos.QueryParameter {
	return azcosmos.QueryParameter{Name: name, Value: value}
}

func (c *Client) inContainer(ctx context.Context, to call, send func(ctx context.Context,
	container *azcosmos.ContainerClient) (azcosmos.Response, error)) (store.Receipt, error) {
	return c.do(ctx, to, func(ctx context.Context, az *azcosmos.Client) (azcosmos.Response, error) {
		container, err := az.NewContainer(cmp.Or(to.database, store.Database), to.container)
		if err != nil {
			return azcosmos.Response{}, fmt.Errorf("container %s: %w", to.container, err)
		}
		return send(ctx, container)
	})
}

// itemRequest is a request for one item under a key.
type itemRequest struct {
	changes effect
	doc     []byte // document that it stores; nil for none
	send    func(ctx context.Context, c *azcosmos.ContainerClient, k azcosmos.PartitionKey) (azcosmos.ItemResponse, error)
}

func (c *Client) item(ctx context.Context, to call, request itemRequest) (out azcosmos.ItemResponse,
	receipt store.Receipt, err error) {
	to.changes = request.changes
	receipt, err = c.inContainer(ctx, to, func(ctx context.Context,
		container *azcosmos.ContainerClient) (azcosmos.Response, error) {
		var err error
		out, err = request.send(ctx, container, partitionKey(to.key))
		return out.Response, err
	})
	return out, receipt, err
}

func creating(doc []byte) itemRequest {
	return itemRequest{repeatable, doc, func(ctx context.Context, c *azcosmos.ContainerClient,
		k azcosmos.PartitionKey) (azcosmos.ItemResponse, error) {
		return c.CreateItem(ctx, k, doc, nil)
	}}
}

func upserting(doc []byte) itemRequest {
	return itemRequest{repeatable, doc, func(ctx context.Context, c *azcosmos.ContainerClient,
		k azcosmos.PartitionKey) (azcosmos.ItemResponse, error) {
		return c.UpsertItem(ctx, k, doc, nil)
	}}
}

func reading(id string, o *azcosmos.ItemOptions) itemRequest {
	return itemRequest{reads, nil, func(ctx context.Context, c *azcosmos.ContainerClient,
		k azcosmos.PartitionKey) (azcosmos.ItemResponse, error) {
		return c.ReadItem(ctx, k, id, o)
	}}
}

func replacing(id, etag string, doc []byte) itemRequest {
	match := azcore.ETag(etag)
	return itemRequest{repeatable, doc, func(ctx context.Context, c *azcosmos.ContainerClient,
		k azcosmos.PartitionKey) (azcosmos.ItemResponse, error) {
		return c.ReplaceItem(ctx, k, id, doc, &azcosmos.ItemOptions{IfMatchEtag: &match})
	}}
}

func deleting(id string) itemRequest {
	return itemRequest{repeatable, nil, func(ctx context.Context, c *azcosmos.ContainerClient,
		k azcosmos.PartitionKey) (azcosmos.ItemResponse, error) {
		return c.DeleteItem(ctx, k, id, nil)
	}}
}

// put creates or replaces an item. If the store refuses it because an earlier attempt, without an answer, was carried
// out, put has succeeded: then the stored item is the one that was sent.
func (c *Client) put(ctx context.Context, to call, request itemRequest) (out azcosmos.ItemResponse,
	receipt store.Receipt, err error) {
	out, receipt, err = c.item(ctx, to, request)
	var answer *Error
	if !errors.As(err, &answer) || !answer.Unsure ||
		answer.Status != http.StatusConflict && answer.Status != http.StatusPreconditionFailed {
		return out, receipt, err
	}
	var sent struct{ ID string }
	if notJSON := json.Unmarshal(request.doc, &sent); notJSON != nil {
		return out, receipt, err
	}
	to.operation += "_again"
	found, read, notRead := c.item(ctx, to, reading(sent.ID, &azcosmos.ItemOptions{SessionToken: session(answer)}))
	receipt.RUs += read.RUs
	receipt.Throttled += read.Throttled
	if is(notRead, http.StatusNotFound) { // by a replica that lags: the store refused the write for the item
		notRead = errors.New(notRead.Error())
	}
	switch {
	case notRead != nil:
		return out, receipt, fmt.Errorf("what became of the write is not known: %w", notRead)
	case isSame(found.Value, request.doc):
		return found, receipt, nil
	}
	return out, receipt, err
}

func session(answer *Error) *string {
	if answer.Session == "" {
		return nil
	}
	return &answer.Session
}

// isSame reports whether a stored item is the one that was sent: the store adds properties that begin with an
// underscore, and may change the order.
func isSame(stored, sent []byte) bool {
	var a, b map[string]any
	if json.Unmarshal(stored, &a) != nil || json.Unmarshal(sent, &b) != nil {
		return false
	}
	maps.DeleteFunc(a, func(name string, _ any) bool { return strings.HasPrefix(name, "_") })
	maps.DeleteFunc(b, func(name string, _ any) bool { return strings.HasPrefix(name, "_") })
	return reflect.DeepEqual(a, b)
}

// Items writes documents of any layout into one container, and shows every 429. It is what a load test
// compares with; Binnacle itself writes through Chunks.
type Items struct {
	c         *Client
	container string
}

// Create stores a document under a full partition key, in one attempt. An answer other than success is an
// *Error; one with Status 429 says in RetryAfter when to come again.
func (s *Items) Create(ctx context.Context, key []string, id string, doc []byte) (store.Receipt, error) {
	to := call{operation: "item_create", container: s.container, key: key, once: true}
	_, receipt, err := s.c.item(ctx, to, creating(doc))
	if err != nil {
		return receipt, fmt.Errorf("create item %s in %s: %w", id, s.container, err)
	}
	return receipt, nil
}

// Query runs a query under a full partition key, or over all keys where that is nil, and returns what it took and in
// how many pages. The names of parameters begin with @. A page is asked for in one attempt, as in Create.
func (s *Items) Query(ctx context.Context, key []string, sql string, params map[string]any) (store.Usage, int, error) {
	q := query{sql: sql}
	for name, value := range params {
		q.params = append(q.params, param(name, value))
	}
	var usage store.Usage
	pages := 0
	charge := func(float64) error { pages++; return nil }
	to := call{operation: "item_query", container: s.container, key: key, once: true}
	if err := s.c.each(ctx, to, q, &usage, charge, func([]byte) error { return nil }); err != nil {
		return usage, pages, fmt.Errorf("query items of %s: %w", s.container, err)
	}
	return usage, pages, nil
}

var _ store.HeaderReader = (*Chunks)(nil)

// A chunk is of a day by its id, or by its instants: in a damaged one they may differ. Both are in the index.
const daySQL = ` FROM c WHERE ((c.id >= @first AND c.id < @last) OR (c["from"] < @to AND c["to"] >= @from))`

// headerSQL leaves the columns where they are. What a page costs goes by the documents that are loaded all the same,
// but an answer has thousands of headers and few documents.
var headerSQL = func() string {
	names := store.HeaderProperties()
	for i, name := range names {
		names[i] = `c["` + name + `"]`
	}
	return "SELECT " + strings.Join(names, ", ") + daySQL
}()

// Headers implements store.HeaderReader.
func (s *Chunks) Headers(ctx context.Context, scan store.HeaderScan,
	yield func(header []byte) error) (store.Usage, error) {
	to := call{operation: "headers", container: scan.Container, low: s.at.Low, tenant: scan.Tenant}
	return s.c.scan(ctx, to, headersOf(scan), "read headers in "+scan.Container, scan.Charge, yield)
}

func headersOf(scan store.HeaderScan) query {
	var q query
	q.sql = headerSQL
	if scan.Whole {
		q.sql = "SELECT *" + daySQL
	}
	q.params = append(q.params, param("@first", scan.Day.String()+"."), param("@last", (scan.Day+1).String()+"."),
		param("@from", scan.Day.Start()), param("@to", scan.Day.End()))
	if scan.Tenant != "" {
		q.sql += " AND c.tenantShard >= @shard AND c.tenantShard < @beyond"
		q.params = append(q.params, param("@shard", scan.Tenant+"~"), param("@beyond", scan.Tenant+"\x7f"))
	}
	if scan.Device != "" {
		q.sql += " AND c.device = @device"
		q.params = append(q.params, param("@device", scan.Device))
	}
	return q
}

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
