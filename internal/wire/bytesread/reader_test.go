package bytesread_test

import (
	"encoding/binary"
	"math"
	"testing"

	"binnacle/internal/wire/bytesread"

	"github.com/stretchr/testify/require"
)

func TestReader(t *testing.T) {
	var b []byte
	b = append(b, 7)
	b = binary.LittleEndian.AppendUint64(b, 1<<60)
	b = binary.AppendUvarint(b, 300)
	b = binary.AppendVarint(b, math.MinInt64)
	b = append(binary.AppendUvarint(b, 5), "hello"...)
	read := func(b []byte) (r bytesread.Reader) {
		r.Rest = b
		r.Byte()
		r.Uint64()
		r.Uvarint(300)
		r.Varint()
		r.Text()
		return r
	}
	r := bytesread.Reader{Rest: b}
	require.EqualValues(t, 7, r.Byte())
	require.EqualValues(t, 1<<60, r.Uint64())
	require.EqualValues(t, 300, r.Uvarint(300))
	require.EqualValues(t, math.MinInt64, r.Varint())
	require.Equal(t, "hello", r.Text())
	require.NoError(t, r.End())
	for n := range b {
		r := read(b[:n])
		require.Error(t, r.End(), n)
		require.Zero(t, r.Uint64())
	}
	r = read(append(b, 0))
	require.EqualError(t, r.End(), "1 bytes too many")
	for name, fails := range map[string]func(r *bytesread.Reader){
		"301 is above 300":                  func(r *bytesread.Reader) { r.Uvarint(300) },
		"a list of 301 elements in 1 bytes": func(r *bytesread.Reader) { r.Count(1) },
	} {
		r := bytesread.Reader{Rest: append(binary.AppendUvarint(nil, 301), 0)}
		fails(&r)
		require.EqualError(t, r.End(), name)
	}
}
