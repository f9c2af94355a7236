package sharding

import "strings"

const rollupsPrefix = "rollups-"

// RollupsContainer returns the container of the rollups that are made of a container of chunks: shared by the same
// tenants.
func RollupsContainer(chunks string) string {
	return rollupsPrefix + strings.TrimPrefix(chunks, containerPrefix)
}

// ParseRollupsContainer returns ParseContainer for containers of rollups.
func ParseRollupsContainer(name string) (tenant string, s Span, ok bool) {
	rest, ok := strings.CutPrefix(name, rollupsPrefix)
	if !ok {
		return "", Span{}, false
	}
	return ParseContainer(containerPrefix + rest)
}
