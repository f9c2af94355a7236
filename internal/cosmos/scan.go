package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// The queries of a scan. Under a full key the service serves the order; over a prefix it serves none, and
// takes no ORDER BY from this SDK.
const (
	deviceSQL = `SELECT * FROM c WHERE c.tenantShard = @shard AND c.device = @device AND c["from"] < @to AND c["to"] >= @from ORDER BY c["from"] `
	prefixSQL = `SELECT * FROM c WHERE c.tenantShard = @shard AND c["from"] < @to AND c["to"] >= @from`
)

// yielded marks an error as the caller's own.
type yielded struct{ error }

// Scan implements store.Reader.
func (s *Chunks) Scan(ctx context.Context, scan store.Scan, yield func(doc []byte) error) (store.Usage, error) {
	to := call{operation: "scan", container: scan.Key.Container}
	q := query{prefixSQL, []azcosmos.QueryParameter{
		param("@shard", scan.Key.TenantShard), param("@from", scan.Range.From), param("@to", scan.Range.To),
	}}
	if scan.Key.Device != "" {
		order := "ASC"
		if scan.Descending {
			order = "DESC"
		}
		to.key = []string{scan.Key.TenantShard, scan.Key.Device}
		q = query{deviceSQL + order, append(q.params, param("@device", scan.Key.Device))}
	}
	var usage store.Usage
	err := s.c.each(ctx, to, q, &usage, func(doc []byte) error {
		if err := yield(doc); err != nil {
			return yielded{err}
		}
		return nil
	})
	var own yielded
	switch {
	case err == nil, is(err, http.StatusNotFound):
		return usage, nil
	case errors.As(err, &own):
		return usage, own.error
	}
	return usage, fmt.Errorf("scan %s of %s: %w", scan.Key.Container, scan.Key.TenantShard, err)
}
