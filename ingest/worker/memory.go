package worker

import (
	"sync"
)

// Memory bounds what the workers of one process hold, in bytes as binning.Rows counts them (rule W11). It is
// safe for any number of callers.
type Memory struct {
	max int64

	mu   sync.Mutex // guards used
	used int64
}

// NewMemory returns a bound of so many bytes.
func NewMemory(max int64) *Memory { return &Memory{max: max} }

// tight is the share of the bound from which on the fullest bins are cut.
const tight = 0.8

func (m *Memory) add(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += int64(n)
}

// Used returns how much is held now.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// over returns how many bytes must go to be comfortable again; 0 while that is so.
func (m *Memory) over() int64 { return max(0, m.Used()-int64(tight*float64(m.max))) }

// Full reports whether nothing more may be taken.
func (m *Memory) Full() bool { return m.Used() >= m.max }
