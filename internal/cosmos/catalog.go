package cosmos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"binnacle/internal/heat"
	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// catalogPages is store.Catalog: the container catalog. All pages of a tenant lie under one key.
type catalogPages struct {
	c   *Client
	low bool
}

// The key of a tenant's pages: no tenant has such a name.
const (
	pagesSuffix = "#pages"
	pagesDevice = "pages"
)

func (s *catalogPages) to(operation, tenant string) call {
	return call{operation: operation, container: store.CatalogContainer, key: []string{tenant + pagesSuffix, pagesDevice},
		brief: true, low: s.low, tenant: tenant, about: about{shard: tenant + pagesSuffix, kind: heat.Catalog}}
}

// Create implements store.Catalog.
func (s *catalogPages) Create(ctx context.Context, tenant, id string, doc []byte) error {
	identity, err := json.Marshal(struct {
		ID     string `json:"id"`
		Tenant string `json:"tenant"`
		Device string `json:"device"`
	}{id, tenant + pagesSuffix, pagesDevice})
	if err != nil {
		return err
	}
	body := append(append(identity[:len(identity)-1], ','), doc[1:]...)
	to := s.to("catalog_create", tenant)
	to.about.bytes = len(body)
	_, _, err = s.c.item(ctx, to, creating(body))
	if is(err, http.StatusConflict) {
		err = store.ErrExists
	}
	if err != nil {
		return fmt.Errorf("create page %s of the catalog of %s: %w", id, tenant, err)
	}
	return nil
}

const pagesSQL = `SELECT c.id, c._ts, c.devices, c.columns, c.updated, c.account, c.forget, c.applied, c.replaces ` +
	`FROM c WHERE c._ts >= @since`

// Pages implements store.Catalog.
func (s *catalogPages) Pages(ctx context.Context, tenant string, since int64) (out []store.PageInfo, err error) {
	var usage store.Usage
	q := query{pagesSQL, []azcosmos.QueryParameter{param("@since", since)}}
	err = s.c.each(ctx, s.to("catalog_pages", tenant), q, &usage, nil, func(item []byte) error {
		var p struct {
			ID       string            `json:"id"`
			Stored   int64             `json:"_ts"`
			Devices  int               `json:"devices"`
			Columns  int               `json:"columns"`
			Updated  int64             `json:"updated"`
			Account  string            `json:"account"`
			Forget   []json.RawMessage `json:"forget"`
			Applied  bool              `json:"applied"`
			Replaces []string          `json:"replaces"`
		}
		err := json.Unmarshal(item, &p)
		out = append(out, store.PageInfo{ID: p.ID, Stored: p.Stored, Devices: p.Devices, Bytes: p.Columns,
			Updated: p.Updated, Account: p.Account, HasForgotten: len(p.Forget) > 0, Applied: p.Applied,
			Replaces: p.Replaces})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the pages of the catalog of %s: %w", tenant, err)
	}
	return out, nil
}

// Read implements store.Catalog.
func (s *catalogPages) Read(ctx context.Context, tenant string, ids []string,
	yield func(id string, doc []byte) error) error {
	var usage store.Usage
	names, params := make([]string, len(ids)), make([]azcosmos.QueryParameter, len(ids))
	for i, id := range ids {
		names[i] = fmt.Sprintf("@p%d", i)
		params[i] = param(names[i], id)
	}
	var stop error
	q := query{`SELECT * FROM c WHERE c.id IN (` + strings.Join(names, ", ") + `)`, params}
	err := s.c.each(ctx, s.to("catalog_read", tenant), q, &usage, nil, func(item []byte) error {
		var p struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(item, &p); err != nil {
			return err
		}
		stop = yield(p.ID, item)
		return stop
	})
	switch {
	case stop != nil:
		return stop
	case err != nil:
		return fmt.Errorf("read the catalog of %s: %w", tenant, err)
	}
	return nil
}

// Delete implements store.Catalog.
func (s *catalogPages) Delete(ctx context.Context, tenant, id string) error {
	_, _, err := s.c.item(ctx, s.to("catalog_delete", tenant), deleting(id))
	if err != nil && !is(err, http.StatusNotFound) {
		return fmt.Errorf("delete page %s of the catalog of %s: %w", id, tenant, err)
	}
	return nil
}
