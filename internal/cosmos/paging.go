package cosmos

import (
	"cmp"
	"errors"
	"fmt"
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
