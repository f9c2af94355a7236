package store_test

import (
	"testing"

	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// Of two partitions that change at once the changes do not cancel each other.
func TestVersionOfUpdates(t *testing.T) {
	seen := map[uint64]bool{}
	for turns := range uint64(200) {
		var n store.HeadUpdates
		n.Add(0, 1, 1_795_161_000_001, 1, turns)
		n.Add(0, 1, 1_795_161_000_329, 1, turns+2)
		require.False(t, seen[n.Version], turns)
		seen[n.Version] = true
	}
}
