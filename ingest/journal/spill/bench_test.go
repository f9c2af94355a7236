//go:build unix

package spill_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"binnacle/ingest/journal/spill"

	"github.com/stretchr/testify/require"
)

// BenchmarkSpill is what a block of 64 rows costs on its way to disk and back: put and freed, and read, among others
// that are there.
func BenchmarkSpill(b *testing.B) {
	const size, around = 600, 10_000
	s, err := spill.Open(b.TempDir())
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	block := make([]byte, size)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range block {
		block[i] = byte(random.Uint32())
	}
	var refs []spill.Ref
	for range around {
		r, err := s.Put(block)
		require.NoError(b, err)
		refs = append(refs, r)
	}
	b.Run("put", func(b *testing.B) {
		begun := cpu(b)
		for i := range b.N {
			r, err := s.Put(block)
			if err != nil {
				b.Fatal(err)
			}
			s.Free(refs[i%around])
			refs[i%around] = r
		}
		b.ReportMetric(float64(cpu(b)-begun)/float64(b.N), "CPU-ns/block")
	})
	b.Run("get", func(b *testing.B) {
		buffer := make([]byte, 0, size)
		begun := cpu(b)
		for range b.N {
			var err error
			if buffer, err = s.Get(buffer[:0], refs[random.IntN(around)]); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(cpu(b)-begun)/float64(b.N), "CPU-ns/block")
	})
}

// cpu is what this process has used of the processors.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
