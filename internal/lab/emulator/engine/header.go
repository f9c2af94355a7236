package engine

import (
	"encoding/binary"
	"errors"
	"math"
)

// header is what is kept of an item apart from its body. Encoded, all numbers big-endian:
//
//	version:1 = 1   position:7 bits lsn:57 bits   created:8   modified:8   ttl:4   size:4   wide:1 bit terms:31 bits
//	generation:4
//	count:1, then the covered values: kind:1 and
//	  number 8 bytes of float64, string length:1 and bytes, others nothing
type header struct {
	// lsn is the sequence number of the last write.
	lsn uint64
	// position is the place of the last write in its transaction.
	position uint8
	// created is the sequence number of the first write.
	created  uint64
	modified int64  // _ts: seconds since 1970
	ttl      int32  // the item's own time to live in seconds, -1 never, 0 none said
	size     uint32 // bytes of minified JSON without system properties: what is charged
	terms    uint32 // units of the index, as charged
	wide     bool   // it has numbers that queries write otherwise than point reads
	// generation numbers the definition under which the covered values were taken.
	generation uint32
	covered    []byte // encoded values
}

const (
	lsnBits       = 64 - positionBits
	headerVersion = 1
	headerFixed   = 1 + 8 + 8 + 8 + 4 + 4 + 4 + 4
)

var errHeader = errors.New("the header of an item is damaged")

func (h *header) append(dst []byte) []byte {
	dst = append(dst, headerVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.position)<<lsnBits|h.lsn)
	dst = binary.BigEndian.AppendUint64(dst, h.created)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.modified))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.ttl))
	dst = binary.BigEndian.AppendUint32(dst, h.size)
	dst = binary.BigEndian.AppendUint32(dst, h.terms|uint32(bit(h.wide))<<31)
	dst = binary.BigEndian.AppendUint32(dst, h.generation)
	return append(dst, h.covered...)
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// decode reads a header; the covered values share its memory.
func (h *header) decode(src []byte) error {
	if len(src) < headerFixed+1 || src[0] != headerVersion {
		return errHeader
	}
	stamp := binary.BigEndian.Uint64(src[1:])
	h.lsn, h.position = stamp&(1<<lsnBits-1), uint8(stamp>>lsnBits)
	h.created = binary.BigEndian.Uint64(src[9:])
	h.modified = int64(binary.BigEndian.Uint64(src[17:]))
	h.ttl = int32(binary.BigEndian.Uint32(src[25:]))
	h.size = binary.BigEndian.Uint32(src[29:])
	h.terms = binary.BigEndian.Uint32(src[33:])
	h.wide = h.terms>>31 == 1
	h.terms &= 1<<31 - 1
	h.generation = binary.BigEndian.Uint32(src[37:])
	h.covered = src[headerFixed:]
	return nil
}

func (h *header) version() uint64 { return h.lsn<<positionBits | uint64(h.position) }

// never is the expiry of an item that does not expire.
const never = math.MaxInt64

// expiry returns the second from which an item has expired under a container's defaultTtl.
func (h *header) expiry(defaultTTL int32) int64 {
	ttl := h.ttl
	if ttl == 0 {
		ttl = defaultTTL
	}
	if defaultTTL == 0 || ttl < 0 {
		return never
	}
	return h.modified + int64(ttl)
}
