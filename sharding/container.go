package sharding

import (
	"strings"

	"binnacle/internal/telemetry"
)

const containerPrefix = "chunks-"

// Container returns the container of the chunks of a span: shared by tenants when tenant is empty, else the tenant's
// own.
func Container(tenant string, s Span) string {
	if tenant == "" {
		return containerPrefix + s.String()
	}
	return containerPrefix + tenant + "-" + s.String()
}

// ParseContainer returns the inverse of Container; ok is false for a name that Container does not make.
func ParseContainer(name string) (tenant string, s Span, ok bool) {
	rest, ok := strings.CutPrefix(name, containerPrefix)
	if !ok {
		return "", Span{}, false
	}
	if tenant, s, ok = cutSpan(rest); !ok {
		return "", Span{}, false
	}
	if tenant == "" {
		return "", s, true
	}
	tenant, ok = strings.CutSuffix(tenant, "-")
	if !ok || telemetry.CheckTenant(tenant) != nil {
		return "", Span{}, false
	}
	return tenant, s, true
}
