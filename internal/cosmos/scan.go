package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"binnacle/internal/heat"
	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// The queries of a scan. Under a full key the service serves the order; over a prefix it serves none, and
// takes no ORDER BY from this SDK.
const (
	prefixSQL = `SELECT * FROM c WHERE c.tenantShard = @shard AND (`
	windowSQL = `c["from"] < @to%d AND c["to"] >= @from%[1]d`
	sinceSQL  = ` AND c._ts >= @since%d`
	deviceSQL = ` AND c.device = @device`
	beforeSQL = ` AND c._ts < @before`
	orderSQL  = ` ORDER BY c["from"] `
)

// callerError marks an error as the caller's own.
type callerError struct{ error }

func yieldError(err error) error {
	if err != nil {
		return callerError{err}
	}
	return nil
}

// Scan implements store.Reader.
func (s *Chunks) Scan(ctx context.Context, scan store.Scan, yield func(doc []byte) error) (store.Usage, error) {
	if len(scan.Devices) > store.MaxScanDevices {
		return store.Usage{}, fmt.Errorf("scan %s of %s: %d devices are named, at most %d may be",
			scan.Key.Container, scan.Key.TenantShard, len(scan.Devices), store.MaxScanDevices)
	}
	if len(scan.Windows) > store.MaxScanWindows {
		return store.Usage{}, fmt.Errorf("scan %s of %s: %d windows, at most %d may be",
			scan.Key.Container, scan.Key.TenantShard, len(scan.Windows), store.MaxScanWindows)
	}
	to := call{operation: "scan", container: scan.Key.Container, low: s.at.Low, awaited: s.at.Awaited,
		tenant: tenantOf(scan.Key.TenantShard),
		about:  about{shard: scan.Key.TenantShard, device: scan.Key.Device, kind: heat.ChunkReads}}
	if scan.Key.Device != "" {
		to.key = []string{scan.Key.TenantShard, scan.Key.Device}
	}
	return s.c.scan(ctx, to, queryOf(scan), fmt.Sprintf("scan %s of %s", scan.Key.Container, scan.Key.TenantShard),
		scan.Charge, yield)
}

// scan runs a query and passes documents and charges to the caller's functions. An error that they return ends it,
// and scan returns that error unchanged. what names the scan in all other errors.
func (c *Client) scan(ctx context.Context, to call, q query, what string, charge func(rus float64) error,
	yield func(doc []byte) error) (store.Usage, error) {
	var charged func(float64) error
	if charge != nil {
		charged = func(rus float64) error { return yieldError(charge(rus)) }
	}
	var usage store.Usage
	err := c.each(ctx, to, q, &usage, charged, func(doc []byte) error { return yieldError(yield(doc)) })
	var own callerError
	switch {
	case err == nil:
		return usage, nil
	case errors.As(err, &own):
		return usage, own.error
	case is(err, http.StatusNotFound) && substatus(err) != subSessionNotAvailable:
		err = store.ErrNoContainer
	}
	return usage, fmt.Errorf("%s: %w", what, err)
}

func queryOf(scan store.Scan) query {
	q := query{prefixSQL, []azcosmos.QueryParameter{param("@shard", scan.Key.TenantShard)}}
	for i, w := range scan.AllWindows() {
		if i > 0 {
			q.sql += " OR "
		}
		q.sql += fmt.Sprintf(windowSQL, i)
		q.params = append(q.params, param(fmt.Sprint("@from", i), w.From), param(fmt.Sprint("@to", i), w.To))
		if w.Since > 0 {
			q.sql += fmt.Sprintf(sinceSQL, i)
			q.params = append(q.params, param(fmt.Sprint("@since", i), w.Since))
		}
	}
	q.sql += ")"
	if scan.Before > 0 {
		q.sql, q.params = q.sql+beforeSQL, append(q.params, param("@before", scan.Before))
	}
	switch {
	case scan.Key.Device != "":
		q.sql, q.params = q.sql+deviceSQL+orderSQL, append(q.params, param("@device", scan.Key.Device))
		if scan.Descending {
			q.sql += "DESC"
		} else {
			q.sql += "ASC"
		}
	case scan.Devices != nil:
		q.among("device", scan.Devices)
	}
	return q
}
