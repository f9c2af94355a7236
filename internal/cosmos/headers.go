package cosmos

import (
	"context"
	"strings"

	"binnacle/internal/store"
)

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
