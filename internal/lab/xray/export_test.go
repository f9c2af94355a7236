package xray

import (
	"time"

	"github.com/valyala/fastjson"
)

// Scheme is a layout with its keys, so that a test can really write it.
type Scheme = scheme

// SchemesOf returns the alternatives that are judged for devices of tenants with these loads.
func SchemesOf(loads map[[2]string]float64, tenant bool, n int) []Scheme {
	var f fleet
	if tenant {
		f.tenantPath = "/tenantId"
	}
	for k, rus := range loads {
		l := load{entity: entity{k[0], k[1]}, amount: amount{rus: rus}}
		f.loads = append(f.loads, l)
		f.rus += rus
	}
	return schemes(f, n)
}

// KeyOf returns the key of a document in a layout.
func (s scheme) KeyOf(tenant, device string, at time.Time) []string {
	return s.key(entity{tenant, device}, at)
}

// DeviceKeys returns the keys that may hold a day of a device.
func (s scheme) DeviceKeys(tenant, device string, day time.Time) [][]string {
	return s.device(entity{tenant, device}, day)
}

// TenantKeys returns the keys or prefixes that may hold a day of a tenant; nil for all.
func (s scheme) TenantKeys(tenant string, day time.Time) [][]string {
	if s.tenant == nil {
		return nil
	}
	return s.tenant(tenant, day)
}

// Hash returns the effective partition key of a key or of a prefix.
func Hash(levels []string) string {
	var key []component
	for _, l := range levels {
		key = append(key, component{fastjson.TypeString, l, true})
	}
	return hashOf(key)
}
