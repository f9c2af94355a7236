package bytesread

import (
	"encoding/binary"
	"math"
)

// Codec appends fields to Out, or reads them from Rest: one function that lists the fields of a structure in order is
// its format in both directions. While it appends, it changes no field.
type Codec struct {
	Reader
	// Out is what was appended.
	Out []byte
	// Appends is set in a Codec that appends.
	Appends bool
}

// Uint appends or reads a number without a sign, in as few bytes as it needs. One that is read is at most most.
func Uint[T ~uint8 | ~uint32 | ~uint64 | ~int | ~int16 | ~int32 | ~int64](c *Codec, n *T, most uint64) {
	if c.Appends {
		c.Out = binary.AppendUvarint(c.Out, uint64(*n))
	} else {
		*n = T(c.Uvarint(most))
	}
}

// Int appends or reads a number with a sign, in as few bytes as it needs.
func Int[T ~int32 | ~int64](c *Codec, n *T) {
	if c.Appends {
		c.Out = binary.AppendVarint(c.Out, int64(*n))
		return
	}
	read := c.Varint()
	if *n = T(read); int64(*n) != read {
		c.Failf("%d is beyond 32 bits", read)
	}
}

// Fixed appends or reads a number of eight bytes, the lowest first.
func Fixed[T ~uint64](c *Codec, n *T) {
	if c.Appends {
		c.Out = binary.LittleEndian.AppendUint64(c.Out, uint64(*n))
	} else {
		*n = T(c.Uint64())
	}
}

// Bytes appends or reads bytes behind their length. Those that are read alias Rest.
func (c *Codec) Bytes(b *[]byte) {
	if c.Appends {
		c.Out = append(binary.AppendUvarint(c.Out, uint64(len(*b))), *b...)
	} else {
		*b = c.Reader.Bytes()
	}
}

// Text appends or reads a text behind its length.
func (c *Codec) Text(s *string) {
	if c.Appends {
		c.Out = append(binary.AppendUvarint(c.Out, uint64(len(*s))), *s...)
	} else {
		*s = c.Reader.Text()
	}
}

// Elements are elements of a list that take least bytes each, or more: a length can't demand more memory.
type Elements struct {
	*Codec
	least int
}

// Of returns elements of a least size in bytes.
func (c *Codec) Of(least int) Elements { return Elements{c, least} }

// List appends or reads a list behind its length. An empty one is nil when it is read.
func List[L ~[]T, T any](c Elements, list *L, element func(*T)) {
	if n := len(*list); c.Appends {
		Uint(c.Codec, &n, math.MaxInt)
	} else if n = c.Count(c.least); n > 0 {
		*list = make(L, n)
	} else {
		*list = nil
	}
	for i := range *list {
		element(&(*list)[i])
	}
}
