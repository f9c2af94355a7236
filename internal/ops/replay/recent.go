package replay

import (
	"hash/maphash"

	"binnacle/internal/telemetry"
)

// generation is how many values of series a recent remembers before it begins to forget; about 40 MB.
const generation = 2 << 20

// instantFilter reports whether a series had a value at an instant before. It remembers 64-bit hashes of the
// last values, between one and two generations of them, so its memory is bounded; a false alarm has a
// chance of one in a million over a whole file.
type instantFilter struct {
	limit    int
	seed     maphash.Seed
	key      []byte
	now, old map[uint64]struct{}
	forgot   bool
}

func newInstantFilter(limit int) *instantFilter {
	return &instantFilter{limit: limit, seed: maphash.MakeSeed(), now: map[uint64]struct{}{}}
}

// repeats adds a reading, and reports whether one of its series had a value at its instant.
func (s *instantFilter) repeats(r telemetry.Reading) bool {
	s.key = append(append(s.key[:0], r.Tenant...), 0xFF)
	s.key = append(append(s.key, r.Device...), 0xFF)
	for shift := 0; shift < 64; shift += 8 {
		s.key = append(s.key, byte(r.Time>>shift))
	}
	s.key = r.Labels.AppendKey(s.key)
	row := len(s.key)
	repeated := false
	for _, f := range r.Fields {
		s.key = append(s.key[:row], f.Metric...)
		repeated = s.add(maphash.Bytes(s.seed, s.key)) || repeated
	}
	return repeated
}

func (s *instantFilter) add(h uint64) (known bool) {
	if _, known = s.now[h]; known {
		return true
	}
	_, known = s.old[h]
	if len(s.now) >= s.limit {
		s.forgot = s.forgot || len(s.old) > 0
		s.old, s.now = s.now, make(map[uint64]struct{}, s.limit)
	}
	s.now[h] = struct{}{}
	return known
}
