package engine

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"slices"
)

// Resource ids are random, so that two emulators in one process never share one: SDKs key caches by them. A
// database has 4 bytes, a container these 4 and 4 more, an item the container's 8 and 8 more. The high bit of a
// container's own bytes is set; other children of a database have it clear.
const (
	ridOfDatabase = 4
	containerRID  = 8
)

func newRID(parent []byte) []byte {
	own := random()
	if len(parent) > 0 {
		own[0] |= 0x80
	}
	return slices.Concat(parent, own)
}

func random() []byte {
	raw := make([]byte, 4)
	_, _ = rand.Read(raw) // never fails: crypto/rand
	return raw
}

// ridEncoding is base64 with the slash replaced, as the service writes resource ids.
var ridEncoding = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-")

func ridText(rid []byte) string { return ridEncoding.EncodeToString(rid) }

func ridBytes(text string) []byte {
	b, err := ridEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return b
}

// appendItemRID appends the resource id of the item that was created with that sequence number. The low byte comes
// first: the upper half of the last one is the kind of resource, 0 for an item (6 for a function, as recorded).
func appendItemRID(dst, container []byte, created uint64) []byte {
	var raw [containerRID + 8]byte
	copy(raw[:], container)
	binary.LittleEndian.PutUint64(raw[containerRID:], created)
	return ridEncoding.AppendEncode(dst, raw[:])
}

// newETag returns the ETag of a metadata resource.
func newETag(second int64) string {
	return `"` + string(appendETag(nil, binary.BigEndian.Uint32(random()), second)) + `"`
}
