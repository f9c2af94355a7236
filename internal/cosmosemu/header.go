package cosmosemu

import (
	"encoding/binary"
	"errors"
	"math"

	"binnacle/internal/cosmosemu/sql"
)

// header is what is kept of an item apart from its body. Encoded, all numbers big-endian:
//
//	version:1 = 1   position:7 bits lsn:57 bits   created:8   modified:8   ttl:4   size:4   terms:4   generation:4
//	count:1, then the covered values: kind:1 and
//	  number 8 bytes of float64, string length:1 and bytes, others nothing
type header struct {
	lsn        uint64 // of the last write
	position   uint8  // of that write in its transaction
	created    uint64 // of the first
	modified   int64  // _ts: seconds since 1970
	ttl        int32  // the item's own time to live in seconds, -1 never, 0 none said
	size       uint32 // bytes of minified JSON without system properties: what is charged
	terms      uint32 // indexed terms, as charged
	generation uint32 // of the definition that the covered values were taken under
	covered    []byte // encoded values
}

const (
	lsnBits       = 64 - positionBits
	headerVersion = 1
	headerFixed   = 1 + 8 + 8 + 8 + 4 + 4 + 4 + 4
)

// The kinds of a covered value. Elsewhere stands for a value that is too long or has structure: the
// body has it.
const (
	coveredUndefined = iota
	coveredNull
	coveredFalse
	coveredTrue
	coveredNumber
	coveredString
	coveredElsewhere
)

var errHeader = errors.New("the header of an item is damaged")

func (h *header) append(dst []byte) []byte {
	dst = append(dst, headerVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.position)<<lsnBits|h.lsn)
	dst = binary.BigEndian.AppendUint64(dst, h.created)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.modified))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.ttl))
	dst = binary.BigEndian.AppendUint32(dst, h.size)
	dst = binary.BigEndian.AppendUint32(dst, h.terms)
	dst = binary.BigEndian.AppendUint32(dst, h.generation)
	return append(dst, h.covered...)
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
	h.generation = binary.BigEndian.Uint32(src[37:])
	h.covered = src[headerFixed:]
	return nil
}

// version tells the versions of an item apart.
func (h *header) version() uint64 { return h.lsn<<positionBits | uint64(h.position) }

// never is the expiry of an item that does not expire.
const never = math.MaxInt64

// expiry is the second from which an item has expired under a container's defaultTtl.
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

// appendCovered encodes one covered value.
func appendCovered(dst []byte, v sql.Value) []byte {
	switch v.Kind() {
	case sql.Undefined:
		return append(dst, coveredUndefined)
	case sql.Null:
		return append(dst, coveredNull)
	case sql.Bool:
		if v.True() {
			return append(dst, coveredTrue)
		}
		return append(dst, coveredFalse)
	case sql.Number:
		return binary.BigEndian.AppendUint64(append(dst, coveredNumber), math.Float64bits(v.Float()))
	case sql.String:
		if s := v.Bytes(); len(s) <= math.MaxUint8 {
			return append(append(dst, coveredString, byte(len(s))), s...)
		}
	}
	return append(dst, coveredElsewhere)
}

// decodeCovered reads the covered values into dst. A value that is elsewhere has ok false.
func decodeCovered(dst []coveredValue, src []byte) ([]coveredValue, error) {
	dst = dst[:0]
	n := int(src[0])
	src = src[1:]
	for range n {
		if len(src) == 0 {
			return nil, errHeader
		}
		v := coveredValue{ok: true}
		kind, rest := src[0], src[1:]
		switch kind {
		case coveredUndefined:
		case coveredNull:
			v.value = sql.NullValue()
		case coveredFalse, coveredTrue:
			v.value = sql.BoolValue(kind == coveredTrue)
		case coveredNumber:
			if len(rest) < 8 {
				return nil, errHeader
			}
			v.value = sql.NumberValue(math.Float64frombits(binary.BigEndian.Uint64(rest)))
			rest = rest[8:]
		case coveredString:
			if len(rest) < 1 || len(rest) < 1+int(rest[0]) {
				return nil, errHeader
			}
			v.value = sql.StringValue(rest[1 : 1+int(rest[0])])
			rest = rest[1+int(rest[0]):]
		case coveredElsewhere:
			v.ok = false
		default:
			return nil, errHeader
		}
		dst = append(dst, v)
		src = rest
	}
	return dst, nil
}

type coveredValue struct {
	value sql.Value
	ok    bool
}
