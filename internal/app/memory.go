package app

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory sets Go's memory limit to what the roles hold at most by their settings and an eighth for garbage, or to
// nine tenths of the container's limit if that is less. The variable GOMEMLIMIT takes precedence.
func (r roles) limitMemory(container string) {
	held := int64(64 << 20) // buffers, and the program itself
	if in := r.ingest; in != nil {
		held += in.Ingest.MemoryBytes + in.Ingest.CatalogBytes
	}
	if q := r.query; q != nil {
		held += q.Query.TotalMemoryBytes + max(q.Query.CacheBytes, 0) + q.Query.TagsBytes + q.RejectedBytes
	}
	if r.rollups != nil {
		held += 384 << 20 // chunks that are read, and tables that are filled
	}
	limit := held / 8 * 9
	if most, err := strconv.ParseInt(strings.TrimSpace(container), 10, 64); err == nil {
		limit = min(limit, most/10*9)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}
