package sharding

import (
	"strings"

	"binnacle/internal/telemetry"
)

const rollupsPrefix = "rollups-"

// RollupsContainer returns the container of the rollups that are made of a container of chunks: shared by the same
// tenants.
func RollupsContainer(chunks string) string {
	return rollupsPrefix + strings.TrimPrefix(chunks, containerPrefix)
}

// ParseRollupsContainer returns ParseContainer for containers of rollups.
func ParseRollupsContainer(name string) (tenant string, m telemetry.Month, ok bool) {
	rest, ok := strings.CutPrefix(name, rollupsPrefix)
	if !ok {
		return "", 0, false
	}
	return ParseContainer(containerPrefix + rest)
}
