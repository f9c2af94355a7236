package controltest

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// Catalog is control.Catalog in memory. It fails the test when a caller breaks a rule of the contract.
// Its hook is set before it is used. See NewCatalog.
type Catalog struct {
	// Fault is asked before each operation, with the tenant and the device or prefix; nil, or an answer of nil,
	// lets it happen. It is called without a lock.
	Fault func(op, tenant, device string) *Fault

	t testing.TB

	mu      sync.Mutex // guards below
	version int
	entries map[catalogKey]catalogEntry
}

type catalogKey struct{ tenant, device string }

type catalogEntry struct {
	body []byte
	etag string
}

// NewCatalog makes an empty catalog.
func NewCatalog(t testing.TB) *Catalog {
	return &Catalog{t: t, entries: make(map[catalogKey]catalogEntry)}
}

// Read implements control.Catalog.
func (c *Catalog) Read(ctx context.Context, tenant, device string) (control.Device, bool, error) {
	if f := c.fault(ctx, OpRead, tenant, device); f != nil {
		return control.Device{}, false, f.Err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[catalogKey{tenant, device}]
	if !ok {
		return control.Device{}, false, nil
	}
	return c.decode(e), true, nil
}

// Write implements control.Catalog.
func (c *Catalog) Write(ctx context.Context, d control.Device) (string, error) {
	c.check(d)
	f := c.fault(ctx, OpWrite, d.Tenant, d.Device)
	if f != nil && !f.Applied {
		return "", f.Err
	}
	body, err := json.Marshal(d)
	if err != nil {
		c.t.Errorf("catalog entry %s/%s does not encode: %v", d.Tenant, d.Device, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := catalogKey{d.Tenant, d.Device}
	old, found := c.entries[key]
	etag := ""
	changed := found != (d.ETag != "") || old.etag != d.ETag
	if !changed {
		c.version++
		etag = strconv.Quote(strconv.Itoa(c.version))
		c.entries[key] = catalogEntry{body, etag}
	}
	switch {
	case f != nil:
		return "", f.Err
	case changed:
		return "", control.ErrChanged
	}
	return etag, nil
}

// List implements control.Catalog.
func (c *Catalog) List(ctx context.Context, tenant, prefix string, yield func(control.Device) error) error {
	if f := c.fault(ctx, OpList, tenant, prefix); f != nil {
		return f.Err
	}
	c.mu.Lock()
	entries := maps.Clone(c.entries)
	c.mu.Unlock()
	var devices []string
	for k := range entries {
		if k.tenant == tenant && strings.HasPrefix(k.device, prefix) {
			devices = append(devices, k.device)
		}
	}
	slices.Sort(devices)
	for _, device := range devices {
		if err := yield(c.decode(entries[catalogKey{tenant, device}])); err != nil {
			return err
		}
	}
	return nil
}

func (c *Catalog) decode(e catalogEntry) control.Device {
	var d control.Device
	if err := json.Unmarshal(e.body, &d); err != nil {
		c.t.Errorf("catalog entry %s: %v", e.body, err)
	}
	d.ETag = e.etag
	return d
}

func (c *Catalog) fault(ctx context.Context, op, tenant, device string) *Fault {
	if err := ctx.Err(); err != nil {
		return &Fault{Err: err}
	}
	if c.Fault == nil {
		return nil
	}
	return c.Fault(op, tenant, device)
}

func (c *Catalog) check(d control.Device) {
	if err := telemetry.CheckTenant(d.Tenant); err != nil {
		c.t.Errorf("catalog entry: %v", err)
	}
	if err := telemetry.CheckDevice(d.Device); err != nil {
		c.t.Errorf("catalog entry: %v", err)
	}
	if d.First > d.Last {
		c.t.Errorf("catalog entry %s/%s: first %d is after last %d", d.Tenant, d.Device, d.First, d.Last)
	}
	for metric, kinds := range d.Metrics {
		for _, k := range kinds {
			if _, ok := telemetry.ParseKind(k); !ok {
				c.t.Errorf("catalog entry %s/%s: metric %q has the kind %q", d.Tenant, d.Device, metric, k)
			}
		}
		c.checkSet(d, "kinds of metric", metric, kinds)
	}
	for label, values := range d.Labels {
		c.checkSet(d, "values of label", label, values)
		if len(values) > control.MaxLabelValues {
			c.t.Errorf("catalog entry %s/%s: label %q has %d values", d.Tenant, d.Device, label, len(values))
		}
	}
}

func (c *Catalog) checkSet(d control.Device, what, name string, values []string) {
	if !slices.IsSorted(values) || len(slices.Compact(slices.Clone(values))) != len(values) {
		c.t.Errorf("catalog entry %s/%s: the %s %q are not a sorted set: %q", d.Tenant, d.Device, what, name, values)
	}
}
