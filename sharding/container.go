package sharding

import (
	"strings"

	"binnacle/internal/telemetry"
)

const containerPrefix = "chunks-"

// monthDigits is the length of a month in a container's name.
const monthDigits = len("2026-11")

// Container returns the container of a month's chunks: shared by tenants when tenant is empty, else the tenant's own.
func Container(tenant string, m telemetry.Month) string {
	if tenant == "" {
		return containerPrefix + m.String()
	}
	return containerPrefix + tenant + "-" + m.String()
}

// ParseContainer returns the inverse of Container; ok is false for a name that Container does not make.
func ParseContainer(name string) (tenant string, m telemetry.Month, ok bool) {
	rest, ok := strings.CutPrefix(name, containerPrefix)
	if !ok || len(rest) < monthDigits {
		return "", 0, false
	}
	tenant, month := rest[:len(rest)-monthDigits], rest[len(rest)-monthDigits:]
	m, err := telemetry.ParseMonth(month)
	if err != nil {
		return "", 0, false
	}
	if tenant == "" {
		return "", m, true
	}
	tenant, ok = strings.CutSuffix(tenant, "-")
	if !ok || telemetry.CheckTenant(tenant) != nil {
		return "", 0, false
	}
	return tenant, m, true
}
