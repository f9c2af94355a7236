package cosmos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"binnacle/internal/control"
	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// catalog is control.Catalog: the container catalog, whose key is tenant and device. There is one item
// per key.
type catalog struct{ c *Client }

// entryID is the id of every item of the catalog.
const entryID = "device"

// entry is an item of the catalog.
type entry struct {
	ID string `json:"id"`
	control.Device
	Stored string `json:"_etag,omitempty"`
}

func (e entry) device() control.Device {
	d := e.Device
	d.ETag = e.Stored
	return d
}

func (s *catalog) Read(ctx context.Context, tenant, device string) (control.Device, bool, error) {
	resp, _, err := s.c.item(ctx, s.to("catalog_read", tenant, device),
		func(ctx context.Context, container *azcosmos.ContainerClient,
			pk azcosmos.PartitionKey) (azcosmos.ItemResponse, error) {
			return container.ReadItem(ctx, pk, entryID, nil)
		})
	if is(err, http.StatusNotFound) {
		return control.Device{}, false, nil
	}
	var e entry
	if err == nil {
		err = json.Unmarshal(resp.Value, &e)
	}
	if err != nil {
		return control.Device{}, false, fmt.Errorf("read catalog entry %s/%s: %w", tenant, device, err)
	}
	return e.device(), true, nil
}

func (s *catalog) Write(ctx context.Context, d control.Device) (string, error) {
	body, err := json.Marshal(entry{ID: entryID, Device: d})
	if err != nil {
		return "", fmt.Errorf("write catalog entry %s/%s: %w", d.Tenant, d.Device, err)
	}
	resp, _, err := s.c.item(ctx, s.to("catalog_write", d.Tenant, d.Device),
		func(ctx context.Context, container *azcosmos.ContainerClient,
			pk azcosmos.PartitionKey) (azcosmos.ItemResponse, error) {
			if d.ETag == "" {
				return container.CreateItem(ctx, pk, body, nil)
			}
			match := azcore.ETag(d.ETag)
			return container.ReplaceItem(ctx, pk, entryID, body, &azcosmos.ItemOptions{IfMatchEtag: &match})
		})
	var answer *Error
	if errors.As(err, &answer) && (answer.Status == http.StatusConflict ||
		answer.Status == http.StatusPreconditionFailed ||
		answer.Status == http.StatusNotFound && d.ETag != "") {
		err = control.ErrChanged
	}
	if err != nil {
		return "", fmt.Errorf("write catalog entry %s/%s: %w", d.Tenant, d.Device, err)
	}
	return string(resp.ETag), nil
}

// The queries of a list. Device ids end below U+FFFF, which is no character, so "the prefix and U+FFFF"
// lies behind everything that begins with the prefix.
const (
	devicesSQL = `SELECT c.device FROM c WHERE c.tenant = @tenant AND c.device >= @from AND c.device <= @to`
	entriesSQL = `SELECT * FROM c WHERE c.tenant = @tenant AND c.device >= @from AND c.device <= @to`
	afterAll   = "\uffff"
)

// listWindow is how many entries a list holds in memory at a time.
const listWindow = 500

// List implements control.Catalog. The service answers a tenant's entries in no order, so the device ids are
// read and sorted first, then the entries, a window of devices at a time.
func (s *catalog) List(ctx context.Context, tenant, prefix string, yield func(control.Device) error) error {
	devices, err := list(ctx, s.c, devicesSQL, tenant, prefix, prefix+afterAll)
	if err != nil {
		return err
	}
	for window := range slices.Chunk(devices, listWindow) {
		entries, err := list(ctx, s.c, entriesSQL, tenant, window[0].Device.Device, window[len(window)-1].Device.Device)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := yield(e.device()); err != nil {
				return err
			}
		}
	}
	return nil
}

func list(ctx context.Context, c *Client, sql, tenant, from, to string) ([]entry, error) {
	var out []entry
	var usage store.Usage
	q := query{sql, []azcosmos.QueryParameter{param("@tenant", tenant), param("@from", from), param("@to", to)}}
	err := c.each(ctx, call{operation: "catalog_list", container: store.CatalogContainer}, q, &usage, nil,
		func(item []byte) error {
			var e entry
			err := json.Unmarshal(item, &e)
			out = append(out, e)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("list devices of %s: %w", tenant, err)
	}
	slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.Device.Device, b.Device.Device) })
	return out, nil
}

func (s *catalog) to(operation, tenant, device string) call {
	return call{operation: operation, container: store.CatalogContainer, key: []string{tenant, device}, brief: true}
}
