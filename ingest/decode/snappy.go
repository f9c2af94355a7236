package decode

import "github.com/klauspost/compress/s2"

// maxUnpacked bounds what a packed payload may become.
const maxUnpacked = 16 << 20

// unsnap unpacks a block of snappy. What it returns is overwritten by the next call. A copy of 64 bytes takes at
// least 3, so that more than 22 times the size is no block, and a small payload can't reserve much memory.
func (d *writeReader) unsnap(packed []byte) ([]byte, *fault) {
	size, err := s2.DecodedLen(packed)
	if err != nil || size > 22*len(packed) {
		return nil, faultf(Undecodable, "not a snappy block")
	}
	if size > maxUnpacked {
		return nil, faultf(TooLarge, "the payload unpacks to %d bytes, more than %d", size, maxUnpacked)
	}
	if d.made.work(size); cap(d.unpacked) > 64*maxKept {
		d.unpacked = nil
	}
	if cap(d.unpacked) < size {
		d.unpacked = make([]byte, size)
	}
	out, err := s2.Decode(d.unpacked[:size], packed)
	if err != nil {
		return nil, faultf(Undecodable, "not a snappy block: %v", err)
	}
	return out, nil
}
