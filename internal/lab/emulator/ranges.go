package emulator

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"binnacle/internal/lab/emulator/engine"
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

// readRanges answers with the physical partitions. SDKs read it like a change feed: once all, with an ETag,
// then for that ETag the partitions that splits have made since. Each new partition names all its ancestors, so
// that a client that has missed several splits can drop the partitions that are gone.
func (x *exchange) readRanges(co *engine.Container) (reply, error) {
	parts := co.Ranges()
	splits := 0
	for _, p := range parts {
		splits = max(splits, p.Since)
	}
	etag := rangesETag(co.RID(), splits)
	seen := seenSplits(co.RID(), x.request.Header.Get("If-None-Match"))
	if seen >= splits {
		rep := x.metadata(engine.Resource{ETag: etag})
		rep.status = http.StatusNotModified
		return rep, nil
	}
	def := co.Definition()
	out := make([]rangeJSON, 0, len(parts))
	for i, p := range parts {
		if p.Since <= seen {
			continue
		}
		out = append(out, rangeJSON{
			RID: co.RID(), ID: p.ID, ETag: etag, Min: p.Min, Max: p.Max, RIDPrefix: i,
			Self:       strings.TrimSuffix(def.Self, "/") + "/pkranges/" + p.ID + "/",
			Throughput: 1 / float64(len(parts)), Status: "online", Parents: p.Parents, TS: def.TS, LSN: p.LSN,
		})
	}
	body, err := json.Marshal(map[string]any{"_rid": co.RID(), "PartitionKeyRanges": out, "_count": len(out)})
	if err != nil {
		return reply{}, err
	}
	rep := x.metadata(engine.Resource{Body: body, ETag: etag})
	rep.items, rep.rid, rep.path, rep.gateway = len(out), co.RID(), x.route.containerPath(), true
	return rep, nil
}

// rangesETag returns the ETag of the physical partitions of a container after that many splits.
func rangesETag(rid string, splits int) string { return `"` + rid + "-" + strconv.Itoa(splits) + `"` }

// seenSplits reads such an ETag; -1 for any other.
func seenSplits(rid, etag string) int {
	text, ok := strings.CutPrefix(strings.Trim(etag, `"`), rid+"-")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 {
		return -1
	}
	return n
}
