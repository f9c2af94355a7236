package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

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

func mark(err error) error {
	if err != nil {
		return yielded{err}
	}
	return nil
}

// Scan implements store.Reader.
func (s *Chunks) Scan(ctx context.Context, scan store.Scan, yield func(doc []byte) error) (store.Usage, error) {
	if len(scan.Devices) > store.MaxScanDevices {
		return store.Usage{}, fmt.Errorf("scan %s of %s: %d devices are named, at most %d may be",
			scan.Key.Container, scan.Key.TenantShard, len(scan.Devices), store.MaxScanDevices)
	}
	to := call{operation: "scan", container: scan.Key.Container}
	if scan.Key.Device != "" {
		to.key = []string{scan.Key.TenantShard, scan.Key.Device}
	}
	var charge func(float64) error
	if scan.Charge != nil {
		charge = func(rus float64) error { return mark(scan.Charge(rus)) }
	}
	var usage store.Usage
	err := s.c.each(ctx, to, queryOf(scan), &usage, charge, func(doc []byte) error { return mark(yield(doc)) })
	var own yielded
	switch {
	case err == nil:
		return usage, nil
	case errors.As(err, &own):
		return usage, own.error
	case is(err, http.StatusNotFound) && substatus(err) != subSessionNotAvailable:
		err = store.ErrNoContainer
	}
	return usage, fmt.Errorf("scan %s of %s: %w", scan.Key.Container, scan.Key.TenantShard, err)
}

func queryOf(scan store.Scan) query {
	q := query{prefixSQL, []azcosmos.QueryParameter{
		param("@shard", scan.Key.TenantShard), param("@from", scan.Range.From), param("@to", scan.Range.To),
	}}
	switch {
	case scan.Key.Device != "" && scan.Descending:
		return query{deviceSQL + "DESC", append(q.params, param("@device", scan.Key.Device))}
	case scan.Key.Device != "":
		return query{deviceSQL + "ASC", append(q.params, param("@device", scan.Key.Device))}
	case scan.Devices != nil:
		names := []string{"null"} // IN takes no empty list; no device is null
		for i, d := range scan.Devices {
			name := "@d" + strconv.Itoa(i)
			names, q.params = append(names, name), append(q.params, param(name, d))
		}
		q.sql += " AND c.device IN (" + strings.Join(names, ", ") + ")"
	}
	return q
}
