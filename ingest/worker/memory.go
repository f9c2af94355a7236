package worker

import (
	"binnacle/ingest/decode"
	"sync"
	"sync/atomic"
)

// Memory bounds what the workers of one process hold, in bytes as binning.Rows counts them (rule W11). It is
// safe for any number of callers.
type Memory struct {
	max   int64
	whole *Memory // the Memory that this one is a share of, nil for no share
	used  atomic.Int64
	large sync.Mutex // held while a large record is taken, of the process's bound
}

// NewMemory returns a Memory with a bound of max bytes.
func NewMemory(max int64) *Memory { return &Memory{max: max} }

// Share returns a part of m: its bytes count towards m too, and it is full at its own bound or when m is full.
func (m *Memory) Share(part float64) *Memory {
	return &Memory{max: int64(part * float64(m.max)), whole: m}
}

// tight is the share of the bound from which on the fullest bins are cut.
const tight = 0.8

func (m *Memory) add(n int) {
	if m.whole != nil {
		m.whole.add(n)
	}
	m.used.Add(int64(n))
}

// Used returns how much is held now.
func (m *Memory) Used() int64 { return m.used.Load() }

// over returns how many bytes must go to be comfortable again; 0 while that is so.
func (m *Memory) over() int64 { return max(0, m.Used()-int64(tight*float64(m.max))) }

// short reports whether something must go.
func (m *Memory) short() bool { return m.over() > 0 || m.whole != nil && m.whole.short() }

// memoryUse is what Memory counts of one worker.
type memoryUse struct {
	*Memory
	counted int64 // bytes
}

// set counts the bytes that the worker holds now.
func (u *memoryUse) set(held int64) {
	if held != u.counted {
		u.add(int(held - u.counted))
		u.counted = held
	}
}

// mustGo returns how many of the counted bytes must be freed until m, and its whole, are comfortable again.
func (m *Memory) mustGo(counted int64) int64 {
	own := int64(float64(m.over()) * float64(counted) / float64(max(counted, m.Used())))
	if m.whole == nil {
		return own
	}
	return max(own, m.whole.mustGo(counted))
}

// Full reports whether nothing more may be taken.
func (m *Memory) Full() bool { return m.Used() >= m.max || m.whole != nil && m.whole.Full() }

// largeRecord is how much memory a record may take while other records are taken: a larger one waits for its turn.
const largeRecord = 4 << 20

// recordUse counts towards Memory the decoded form of the record that is being taken, in addition to the rows that
// bins hold of it. It is decode.Meter.
type recordUse struct {
	memory  *Memory
	decoder *decode.Decoder
	counted int
	turn    bool // large is held
}

// Made implements decode.Meter. It waits while the process takes another large record.
func (u *recordUse) Made(bytes int) {
	if bytes > largeRecord && !u.turn {
		u.memory.process().large.Lock()
		u.turn = true
	}
	u.memory.add(bytes - u.counted)
	u.counted = bytes
}

func (u *recordUse) end() {
	u.memory.add(-u.counted)
	u.counted = 0
	if u.turn {
		u.decoder.Release()
		u.turn = false
		u.memory.process().large.Unlock()
	}
}

func (m *Memory) process() *Memory {
	if m.whole != nil {
		return m.whole
	}
	return m
}
