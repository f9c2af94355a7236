package ingesttest

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Deadline bounds a test of something that might never come.
func Deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Rounds returns n, or fewer in short mode: the race detector makes encoding slow. BINNACLE_ROUNDS=10
// makes it ten times n.
func Rounds(n, short int) int {
	if testing.Short() {
		return short
	}
	if times, err := strconv.Atoi(os.Getenv("BINNACLE_ROUNDS")); err == nil {
		return times * n
	}
	return n
}

// Random returns bytes that do not compress, with any others either.
func Random(n int, seed int64) []byte {
	b, key := make([]byte, n), [32]byte{}
	binary.LittleEndian.PutUint64(key[:], uint64(seed))
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}
