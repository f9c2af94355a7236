package cosmos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"binnacle/internal/wire/jsonscan"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	azruntime "github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// page is the answer to a query, as the service has written it. The SDK would read it as JSON and write each document
// again, at several times the cost of all that a query does with documents; and would change their spelling. So its
// body is taken away before the SDK sees it, which finds a page without documents. All else, such as the continuation
// and the charge, is in headers, and errors stay with the SDK.
type page struct {
	body io.ReadCloser // unread
	size int64         // length of body, -1 if the service does not say
	text *bytes.Buffer // from pages
}

// pages keep the memory of earlier pages.
var pages = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Bounds of a page's buffer: how much is allocated at once when the service announces the size of its answer, and how
// much is kept for later pages. Pages of the service have 4 MB, unless one document makes them larger.
const (
	maxAhead = 8 << 20
	maxKept  = 8 << 20
)

type pageKey struct{}

// withPage makes a context in which the answer to a query goes to p.
func withPage(ctx context.Context, p *page) context.Context {
	return context.WithValue(ctx, pageKey{}, p)
}

// takePages is the policy that takes pages away. The SDK runs it for each attempt, behind its own retries. It also
// runs it for requests that it adds with the query's context, such as a read of the account from another goroutine,
// every five minutes. The answers to those stay with the SDK.
type takePages struct{}

// queryHeader is what the SDK sends with a query, and with nothing else.
const queryHeader = "x-ms-documentdb-query"

const emptyPage = `{"Documents":[]}`

// Do implements policy.Policy.
func (takePages) Do(r *policy.Request) (*http.Response, error) {
	if err := r.Raw().Context().Err(); err != nil {
		return nil, err // a transport fails likewise: connect counts on it
	}
	p, ok := r.Raw().Context().Value(pageKey{}).(*page)
	if !ok || r.Raw().Header.Get(queryHeader) == "" {
		return r.Next()
	}
	azruntime.SkipBodyDownload(r)
	resp, err := r.Next()
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	p.close()
	p.body, p.size = resp.Body, resp.ContentLength
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(emptyPage)), int64(len(emptyPage))
	return resp, nil
}

func (p *page) close() {
	if p.body != nil {
		_ = p.body.Close() // nothing of it counts any more
		p.body = nil
	}
}

func (p *page) ask(ctx context.Context,
	pager *azruntime.Pager[azcosmos.QueryItemsResponse]) (azcosmos.QueryItemsResponse, error) {
	p.release()
	defer p.close()
	resp, err := pager.NextPage(withPage(ctx, p))
	if err != nil {
		return resp, err
	}
	if p.body == nil {
		return resp, errors.New("the SDK answers a query without its page")
	}
	p.text = pages.Get().(*bytes.Buffer)
	p.text.Reset()
	p.text.Grow(int(min(max(p.size, 0), maxAhead)) + bytes.MinRead)
	if _, err := p.text.ReadFrom(p.body); err != nil {
		return resp, fmt.Errorf("read a page: %w", err)
	}
	return resp, nil
}

func (p *page) release() {
	if p.text != nil && p.text.Cap() <= maxKept {
		pages.Put(p.text)
	}
	p.text = nil
}

// each calls yield with each document; yield must not keep its bytes. An error of yield ends it and is returned
// unchanged.
func (p *page) each(yield func(doc []byte) error) error {
	var (
		s     jsonscan.Scanner
		own   error
		found bool
	)
	s.Reset(p.text.Bytes())
	err := s.Object(func(name []byte) error {
		if string(name) != "Documents" {
			return s.Skip()
		}
		found = true
		return s.Array(func(int) error {
			doc, err := s.Value()
			if err != nil {
				return err
			}
			own = yield(doc)
			return own
		})
	})
	switch {
	case own != nil:
		return own
	case err != nil:
		return fmt.Errorf("a page of %d bytes: %w", p.text.Len(), err)
	case !s.End() || !found:
		return fmt.Errorf("a page of %d bytes is not one object with documents", p.text.Len())
	}
	return nil
}
