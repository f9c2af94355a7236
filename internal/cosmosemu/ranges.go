package cosmosemu

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// rangeJSON is a physical partition on the wire.
type rangeJSON struct {
	RID        string   `json:"_rid"`
	ID         string   `json:"id"`
	ETag       string   `json:"_etag"`
	Min        string   `json:"minInclusive"`
	Max        string   `json:"maxExclusive"`
	RIDPrefix  int      `json:"ridPrefix"`
	Self       string   `json:"_self"`
	Throughput float64  `json:"throughputFraction"`
	Status     string   `json:"status"`
	Parents    []string `json:"parents"`
	TS         int64    `json:"_ts"`
	LSN        uint64   `json:"lsn"`
}

// readRanges answers with the physical partitions. SDKs read it like a change feed: once all, with an
// ETag, then for that ETag those that splits have made since. These name all that they came from, so
// that a client which has missed several splits can drop what is gone.
func (x *exchange) readRanges() (reply, error) {
	co, err := x.catalog.find(x.route.database, x.route.container)
	if err != nil {
		return reply{}, err
	}
	parts := co.parts()
	splits := 0
	for _, p := range parts {
		splits = max(splits, p.record.Since)
	}
	etag := co.rangesETag(splits)
	seen := co.seenSplits(x.request.Header.Get("If-None-Match"))
	if seen >= splits {
		rep := x.metadata(nil, etag)
		rep.status = http.StatusNotModified
		return rep, nil
	}
	def := co.current.Load()
	out := make([]rangeJSON, 0, len(parts))
	for i, p := range parts {
		if p.record.Since <= seen {
			continue
		}
		r := p.onWire()
		r.RID, r.ETag, r.RIDPrefix, r.TS = co.ridText, etag, i, def.JSON.TS
		r.Self = strings.TrimSuffix(def.JSON.Self, "/") + "/pkranges/" + p.id + "/"
		r.Throughput = 1 / float64(len(parts))
		out = append(out, r)
	}
	body, err := json.Marshal(map[string]any{"_rid": co.ridText, "PartitionKeyRanges": out, "_count": len(out)})
	if err != nil {
		return reply{}, err
	}
	rep := x.metadata(body, etag)
	rep.items, rep.container = len(out), co
	return rep, nil
}

func (p *partition) onWire() rangeJSON {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := rangeJSON{ID: p.id, Min: p.keys.Min, Max: p.keys.Max, Status: "online", Parents: []string{}, LSN: p.count.lsn}
	for _, a := range p.ancestors {
		r.Parents = append(r.Parents, a.ID)
	}
	return r
}

// rangesETag is the ETag of the physical partitions after that many splits.
func (c *container) rangesETag(splits int) string {
	return `"` + c.ridText + "-" + strconv.Itoa(splits) + `"`
}

// seenSplits reads such an ETag; -1 for any other.
func (c *container) seenSplits(etag string) int {
	text, ok := strings.CutPrefix(strings.Trim(etag, `"`), c.ridText+"-")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 {
		return -1
	}
	return n
}
