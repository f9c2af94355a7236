package decode

import (
	"slices"

	"binnacle/internal/telemetry"
)

// The bounds of what a Decoder remembers: entries of a kind, and bytes of an entry.
const (
	maxInterned      = 1 << 13
	maxInternedBytes = 256
)

// interner gives strings for bytes, the same string for the same bytes, and checks each but once.
// It forgets all of them when it is full: a stream has few names, and what has many costs an allocation.
type interner struct {
	known map[string]string
	check func(string) error
}

func newInterner(check func(string) error) interner {
	return interner{map[string]string{}, check}
}

func (n *interner) get(b []byte) (string, error) {
	if k, ok := n.known[string(b)]; ok {
		return k, nil
	}
	k := string(b)
	if err := n.check(k); err != nil {
		return "", err
	}
	if len(k) <= maxInternedBytes {
		if len(n.known) >= maxInterned {
			clear(n.known)
		}
		n.known[k] = k
	}
	return k, nil
}

// sets gives one Labels for equal sets, by their key.
type sets map[string]telemetry.Labels

// get sorts l in place. What it returns shares no memory with l and never changes.
func (s sets) get(l []telemetry.Label, scratch *[]byte) telemetry.Labels {
	sorted := telemetry.NewLabels(l)
	if sorted == nil {
		return nil
	}
	*scratch = sorted.AppendKey((*scratch)[:0])
	if known, ok := s[string(*scratch)]; ok {
		return known
	}
	own := slices.Clone(sorted)
	if len(*scratch) <= maxInternedBytes*2 {
		if len(s) >= maxInterned {
			clear(s)
		}
		s[string(*scratch)] = own
	}
	return own
}
