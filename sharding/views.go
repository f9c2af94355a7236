package sharding

import (
	"strings"

	"binnacle/internal/telemetry"
)

const viewsPrefix = "views-"

// ViewsContainer is the container of the lanes that are made of a container of chunks: shared by the same tenants.
func ViewsContainer(chunks string) string {
	return viewsPrefix + strings.TrimPrefix(chunks, containerPrefix)
}

// ParseViewsContainer is ParseContainer for containers of lanes.
func ParseViewsContainer(name string) (tenant string, m telemetry.Month, ok bool) {
	rest, ok := strings.CutPrefix(name, viewsPrefix)
	if !ok {
		return "", 0, false
	}
	return ParseContainer(containerPrefix + rest)
}
