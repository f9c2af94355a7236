package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/heat"
	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

type rollups struct{ c *Client }

func (v *rollups) to(operation string, key store.RollupKey) call {
	return call{operation: operation, container: key.Container, key: []string{key.TenantShard, key.Name},
		tenant: tenantOf(key.TenantShard), about: about{shard: key.TenantShard, kind: heat.RollupReads}}
}

// toWrite returns a request that changes a document; bytes is the size that it adds to the store.
func (v *rollups) toWrite(operation string, key store.RollupKey, bytes int) call {
	to := v.to(operation, key)
	to.about.kind, to.about.bytes = heat.RollupWrites, bytes
	return to
}

// item runs a request for one document. A 404 becomes store.ErrNotFound, or store.ErrNoContainer.
func (v *rollups) item(ctx context.Context, to call, id string, request itemRequest) (azcosmos.ItemResponse, time.Time,
	store.Receipt, error) {
	resp, receipt, err := v.c.put(ctx, to, request)
	now := dateOf(resp.RawResponse, err)
	if is(err, http.StatusNotFound) {
		missing, other := v.c.missing(ctx, to.container, err)
		switch {
		case other != nil:
			err = other
		case missing:
			err = store.ErrNoContainer
		default:
			err = store.ErrNotFound
		}
	}
	if err != nil {
		err = fmt.Errorf("%s %s of %s in %s: %w", to.operation, id, to.key[0], to.container, err)
	}
	return resp, now, receipt, err
}

// ReadRollup implements store.RollupReader.
func (v *rollups) ReadRollup(ctx context.Context, key store.RollupKey, id string) (store.Rollup, time.Time,
	store.Receipt, error) {
	resp, now, receipt, err := v.item(ctx, v.to("rollup_read", key), id, reading(id, nil))
	return store.Rollup{Doc: resp.Value, ETag: string(resp.ETag)}, now, receipt, err
}

// CreateRollup implements store.RollupWriter.
func (v *rollups) CreateRollup(ctx context.Context, key store.RollupKey, id string, doc []byte) (store.Receipt, error) {
	_, _, receipt, err := v.item(ctx, v.toWrite("rollup_create", key, len(doc)), id, creating(doc))
	var answer *Error
	switch {
	case errors.As(err, &answer) && answer.Status == http.StatusConflict:
		return receipt, &store.ExistsError{Session: answer.Session}
	case errors.Is(err, store.ErrNotFound): // a create that finds nothing to create in
		return receipt, fmt.Errorf("create %s in %s: %w", id, key.Container, store.ErrNoContainer)
	}
	return receipt, err
}

// ReplaceRollup implements store.RollupWriter.
func (v *rollups) ReplaceRollup(ctx context.Context, key store.RollupKey, id, etag string, doc []byte) (store.Receipt,
	error) {
	_, _, receipt, err := v.item(ctx, v.toWrite("rollup_replace", key, 0), id, replacing(id, etag, doc))
	if is(err, http.StatusPreconditionFailed) || errors.Is(err, store.ErrNotFound) {
		return receipt, fmt.Errorf("replace %s of %s: %w", id, key.TenantShard, store.ErrChanged)
	}
	return receipt, err
}

// DeleteRollup implements store.RollupWriter.
func (v *rollups) DeleteRollup(ctx context.Context, key store.RollupKey, id string) (store.Receipt, error) {
	_, _, receipt, err := v.item(ctx, v.toWrite("rollup_delete", key, 0), id, deleting(id))
	if errors.Is(err, store.ErrNotFound) {
		return receipt, nil
	}
	return receipt, err
}

const (
	rollupsSQL      = `SELECT * FROM c WHERE c.tenantShard = @shard AND c["from"] < @to AND c["to"] >= @from`
	rollupsOfKeySQL = ` AND c.rollup = @rollup`
	noManifestsSQL  = ` AND c.rollup != @rollup`
)

// ScanRollups implements store.RollupReader.
func (v *rollups) ScanRollups(ctx context.Context, s store.RollupScan, yield func(doc []byte) error) (store.Usage,
	error) {
	q := query{rollupsSQL, []azcosmos.QueryParameter{
		param("@shard", s.Key.TenantShard), param("@from", s.Range.From), param("@to", s.Range.To),
	}}
	to := v.to("rollup_scan", s.Key)
	switch {
	case s.Key.Name != "":
		q.sql, q.params = q.sql+rollupsOfKeySQL, append(q.params, param("@rollup", s.Key.Name))
	case s.Names != nil:
		to.key = nil
		q.among("rollup", s.Names)
	default:
		to.key = nil
		q.sql, q.params = q.sql+noManifestsSQL, append(q.params, param("@rollup", rollup.ManifestKey))
	}
	if s.Batches != nil {
		q.among("batch", s.Batches)
	}
	return v.c.scan(ctx, to, q,
		fmt.Sprintf("scan %s of %s in %s", s.Key.Name, s.Key.TenantShard, s.Key.Container), s.Charge, yield)
}

// among adds the condition that a property is one of some texts.
func (q *query) among(property string, values []string) {
	names := []string{"null"} // IN takes no empty list; no such property is null
	for i, v := range values {
		name := fmt.Sprintf("@%s%d", property, i)
		names, q.params = append(names, name), append(q.params, param(name, v))
	}
	q.sql += " AND c." + property + " IN (" + strings.Join(names, ", ") + ")"
}
