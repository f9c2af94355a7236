package engine

import "encoding/binary"

// Layout of the keys in the store. Numbers are big-endian, so that keys sort as they count.
//
//	m <kind> <name>                          metadata: see account.go
//	i <container:4> <epk:16 x levels> <id>   item. The value is its header, see header.go; the body its JSON, system
//	                                         properties included
//	p <container:4> <partition>              counters of a physical partition: see partition.go
//	w <container:4> <epk:16 x levels>        size of a logical partition: see weight.go
//	u <container:4> <epk:16 x levels> <n:1> <digest:32>
//	                                         item that has the values of a unique key: see claim.go
//	l <container:4> <partition:2> <lsn:8> …  log of a physical partition: see log.go
//
// The items of a container sort by effective partition key, so a physical partition, a key prefix and
// a logical partition are each one range of keys, and inside a logical partition items sort by id.
// A query passes over items, and time to live finds the expired ones, without reading bodies. Every effective
// partition key of a container has the same length, so the order of bytes is the length-aware order that epk.Compare
// defines.
const (
	spaceMeta    = 'm'
	spaceItem    = 'i'
	spaceCounter = 'p'
	spaceWeight  = 'w'
	spaceUnique  = 'u'
	spaceLog     = 'l'
)

// prefixLen is the length of the part before the effective partition key.
const prefixLen = 5

// levelLen is the length of one level of an effective partition key.
const levelLen = 16

func appendPrefix(dst []byte, space byte, container uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, space), container)
}

// after returns the smallest key that is greater than every key with this prefix; nil when no key is greater.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
