package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"binnacle/binning/chunk"
	"binnacle/internal/heat"
	"binnacle/internal/store"
	"binnacle/sharding"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Chunks is store.Writer and store.Reader.
type Chunks struct {
	c  *Client
	at Priority
}

var (
	_ store.Writer   = (*Chunks)(nil)
	_ store.Reader   = (*Chunks)(nil)
	_ store.Deleter  = (*Chunks)(nil)
	_ store.Replacer = (*Chunks)(nil)
)

func (s *Chunks) to(operation string, key sharding.Key) call {
	return call{
		operation: operation, container: key.Container, key: []string{key.TenantShard, key.Device}, brief: true,
		low: s.at.Low, tenant: tenantOf(key.TenantShard),
		about: about{shard: key.TenantShard, device: key.Device, kind: heat.LookUps},
	}
}

// Create implements store.Writer.
func (s *Chunks) Create(ctx context.Context, key sharding.Key, id string, doc []byte) (store.Receipt, error) {
	to := s.to("create", key)
	to.low = to.low || s.late(id)
	to.about.kind, to.about.bytes = s.kindOf(id), len(doc)
	_, receipt, err := s.c.item(ctx, to, creating(doc))
	var answer *Error
	if err == nil || !errors.As(err, &answer) {
		return receipt, wrapChunk(err, "create chunk "+id, key)
	}
	switch answer.Status {
	case http.StatusConflict:
		return receipt, &store.ExistsError{Session: answer.Session}
	case http.StatusNotFound:
		return receipt, fmt.Errorf("create chunk %s in %s: %w", id, key.Container, store.ErrNoContainer)
	}
	return receipt, wrapChunk(err, "create chunk "+id, key)
}

// DeleteChunk implements store.Deleter.
func (s *Chunks) DeleteChunk(ctx context.Context, key sharding.Key, id string) (store.Receipt, error) {
	_, receipt, err := s.c.item(ctx, s.to("delete", key), deleting(id))
	if is(err, http.StatusNotFound) {
		return receipt, nil
	}
	return receipt, wrapChunk(err, "delete chunk "+id, key)
}

// ReplaceChunk implements store.Replacer.
func (s *Chunks) ReplaceChunk(ctx context.Context, old store.Version, doc []byte) (store.Receipt, error) {
	_, receipt, err := s.c.item(ctx, s.to("replace", old.Key), replacing(old.ID, old.ETag, doc))
	if is(err, http.StatusPreconditionFailed) || is(err, http.StatusNotFound) {
		err = store.ErrChanged
	}
	return receipt, wrapChunk(err, "replace chunk "+old.ID, old.Key)
}

// Read implements store.Writer.
func (s *Chunks) Read(ctx context.Context, key sharding.Key, id string, session string) ([]byte, store.Receipt, error) {
	to := s.to("read", key)
	var o azcosmos.ItemOptions
	if session != "" {
		o.SessionToken = &session
	}
	resp, receipt, err := s.c.item(ctx, to, reading(id, &o))
	if !is(err, http.StatusNotFound) {
		return resp.Value, receipt, wrapChunk(err, "read chunk "+id, key)
	}
	missing, err := s.c.missing(ctx, key.Container, err)
	switch {
	case err != nil:
		return nil, receipt, wrapChunk(err, "read chunk "+id, key)
	case missing:
		return nil, receipt, fmt.Errorf("read chunk %s in %s: %w", id, key.Container, store.ErrNoContainer)
	}
	return nil, receipt, fmt.Errorf("read chunk %s in %s: %w", id, key.Container, store.ErrNotFound)
}

// missing reports whether a 404 for an item is about its container. The substatus says so; a gateway
// that gives none is asked for the container itself.
func (c *Client) missing(ctx context.Context, container string, notFound error) (bool, error) {
	switch substatus(notFound) {
	case subOwnerNotFound:
		return true, nil
	case subSessionNotAvailable:
		return false, nil
	}
	_, err := c.inContainer(ctx, call{operation: "container_read", container: container, brief: true},
		func(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
			resp, err := container.Read(ctx, nil)
			return resp.Response, err
		})
	if is(err, http.StatusNotFound) {
		return true, nil
	}
	return false, err
}

const lastSQL = `SELECT TOP 1 c.id, c.through, c["from"], c["to"], c.rows FROM c ` +
	`WHERE c.tenantShard = @shard AND c.device = @device AND c.id >= @from AND c.id < @to ORDER BY c.id DESC`

// Last implements store.Writer. Ids of one chain differ only in their last part, the number, and sort by it.
func (s *Chunks) Last(ctx context.Context, key sharding.Key, chain store.Chain) (store.Tail, store.Receipt, error) {
	to := s.to("last", key)
	prefix := fmt.Sprintf("%s.%d.%05d", chain.Day, chain.Stream, chain.Partition)
	q := query{lastSQL, []azcosmos.QueryParameter{
		param("@shard", key.TenantShard), param("@device", key.Device),
		param("@from", prefix+"."), param("@to", prefix+"/"), // '/' follows '.'
	}}
	var usage store.Usage
	var tail store.Tail
	err := s.c.each(ctx, to, q, &usage, nil, func(item []byte) error {
		var found struct {
			ID                string
			Through, From, To float64
			Rows              *float64
		}
		if err := json.Unmarshal(item, &found); err != nil {
			return err
		}
		id, err := chunk.ParseID(found.ID)
		tail = store.Tail{Number: id.Number, Through: int64(found.Through), From: int64(found.From), To: int64(found.To),
			Erased: found.Rows != nil && *found.Rows == 0}
		return err
	})
	switch {
	case is(err, http.StatusNotFound):
		err = store.ErrNoContainer
	case err == nil && usage.Documents == 0:
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Tail{}, usage.Receipt, fmt.Errorf("last chunk of %s of device %q in %s: %w", prefix, key.Device,
			key.Container, err)
	}
	return tail, usage.Receipt, nil
}

func wrapChunk(err error, what string, key sharding.Key) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s of device %q in %s: %w", what, key.Device, key.Container, err)
}
