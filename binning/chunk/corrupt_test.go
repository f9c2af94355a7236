package chunk_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"binnacle/binning/chunk"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// openAll reads a document to its end and returns the first error, which must be ErrCorrupt.
func openAll(t testing.TB, doc []byte) error {
	c, err := chunk.Parse(doc)
	if err == nil {
		_, err = c.Frame(nil)
	}
	if err != nil {
		require.ErrorIs(t, err, chunk.ErrCorrupt)
	}
	return err
}

func TestDamagedDocuments(t *testing.T) {
	const seed = 99
	r := rand.New(rand.NewPCG(seed, 0))
	for _, doc := range [][]byte{encode(t, labelled()), encode(t, frameOf(truckPoints(1, 20))),
		encode(t, frameOf(truckPoints(1, 400)))} {
		require.NoError(t, openAll(t, doc))
		for n := range len(doc) {
			if n < 300 || r.IntN(20) == 0 {
				require.Error(t, openAll(t, doc[:n]), "cut at %d", n)
			}
		}
		for range 4000 {
			damaged := append([]byte{}, doc...)
			for range 1 + r.IntN(3) {
				damaged[r.IntN(len(damaged))] = byte(32 + r.IntN(95))
			}
			_ = openAll(t, damaged) // some damage can't be seen, as in a name; none may panic
		}
	}
}

// written is a document made by hand: rows at a millisecond each, and columns of ints from packets as given.
func written(rows int, columns ...[]byte) []byte {
	const from = 1795132800000
	time := []byte{1, 0} // stored; the plain part's length comes here
	plain := binary.AppendUvarint(nil, uint64(rows))
	plain = append(plain, 0) // the first instant
	if rows > 1 {
		plain = append(plain, 1, 1, 0, 0, 0, 0, 0) // unit, period, follow, two streams of zeros
	}
	time[1] = byte(len(plain))
	time = append(time, plain...)
	var list []string
	for i, c := range columns {
		list = append(list, fmt.Sprintf(`{"metric":"%06d","type":"int","stats":[%d,0,0,0,0,0],"data":"%s"}`,
			i, rows, base64.StdEncoding.EncodeToString(c)))
	}
	return fmt.Appendf(nil, `{"id":"20261120.1.00003.000017","v":1,"type":"chunk","tenantShard":"a~1","device":"d","from":%d,"to":%d,`+
		`"rows":%d,"readings":1,"first":1,"through":1,"after":-1,"cut":1,"unique":true,"time":"%s","columns":[%s]}`,
		from, from+rows-1, rows, base64.StdEncoding.EncodeToString(time), strings.Join(list, ","))
}

// asText makes the columns of a written document of one row columns of text.
func asText(doc []byte) []byte {
	return []byte(strings.ReplaceAll(string(doc), `"int","stats":[1,0,0,0,0,0]`, `"text","stats":[1]`))
}

// zeros is the packet of a column of ints that are all 0: codec, length of plain, form, stream of offsets, least.
var zeros = []byte{1, 3, 0, 0, 0}

func TestDecompressionBombs(t *testing.T) {
	require.NoError(t, openAll(t, written(chunk.MaxRows, zeros)))

	// A text of 30 MB of zeros, once and twice: the bytes that a chunk's frames unpack to are counted together.
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	bomb := w.EncodeAll(make([]byte, 30<<20), nil)
	require.NoError(t, w.Close())
	plain := binary.AppendVarint([]byte{5, 0}, 30<<20)
	bomb = append(append([]byte{2, byte(len(plain))}, plain...), bomb[4:]...)
	require.NoError(t, openAll(t, asText(written(1, bomb))))

	huff := append([]byte{3, 3, 0, 0, 0}, binary.AppendUvarint(nil, 1<<40)...)
	many := make([][]byte, 200)
	for i := range many {
		many[i] = zeros
	}
	for what, doc := range map[string][]byte{
		"rows":            written(chunk.MaxRows+1, zeros),
		"values":          written(chunk.MaxRows, many...),
		"zstd":            asText(written(1, bomb, bomb)),
		"huffman":         written(2, huff),
		"text length":     asText(written(1, append([]byte{1, byte(len(plain))}, plain...))),
		"nested JSON":     []byte(strings.Repeat(`[`, 1<<20)),
		"document":        append(written(2, zeros), make([]byte, chunk.MaxDocument)...),
		"dictionary":      written(2, []byte{1, 9, 3, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0, 0, 0}),
		"left over":       written(2, append(zeros, 1)),
		"unknown codec":   written(2, []byte{77, 0}),
		"empty packet":    written(2, nil),
		"planes":          written(2, []byte{1, 3, 0, 0xF0, 0}),
		"no rows":         written(0),
		"no columns":      written(2),
		"index too large": written(2, []byte{1, 7, 3, 1, 0, 0, 10, 0, 4}),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.Error(t, openAll(t, doc), what)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(160<<20), what)
	}
}

func TestParseRefuses(t *testing.T) {
	good := string(encode(t, labelled()))
	for _, v := range [][2]string{
		{`"v":1`, `"v":2`},
		{`"v":1`, `"v":"1"`},
		{`"type":"chunk"`, `"type":"view"`},
		{`"id":"20261120.1.00003.000017"`, `"id":"17"`},
		{`"id":"20261120`, `"id":"20261121`},
		{`"tenantShard":"acme~cg",`, ``},
		{`"device":"truck-0042"`, `"device":""`},
		{`"device":"truck-0042"`, `"device":4`},
		{`"rows":4`, `"rows":5`},
		{`"rows":4`, `"rows":3`},
		{`"rows":4`, `"rows":-4`},
		{`"rows":4`, `"rows":4.5`},
		{`"from":1795183200123`, `"from":1795183200124`},
		{`"from":1795183200123`, `"from":17951832001230`},
		{`"to":1795183202123`, `"to":1795183202124`},
		{`"first":1234567`, `"first":1e300`},
		{`"through":1306000`, `"through":1`},
		{`"after":1234501`, `"after":-2`},
		{`"cut":1795186791000,`, ``},
		{`"cut":1795186791000`, `"cut":-1`},
		{`"cut":1795186791000`, `"cut":"1795186791000"`},
		{`"unique":false`, `"unique":0`},
		{`"ttl":7808400`, `"ttl":0`},
		{`"labels":[{},`, `"labels":[`},
		{`"labels":[{},`, `"labels":[{},{},`},
		{`"side":""`, `"axle":""`},
		{`"side":""`, `"side":0`},
		{`"metric":"load","labels":1`, `"metric":"load","labels":2`},
		{`"metric":"load","labels":1`, `"metric":"load"`},
		{`"metric":"door"`, `"metric":"zzz"`},
		{`"metric":"door"`, `"metric":""`},
		{`"type":"bool"`, `"type":"boolean"`},
		{`"type":"bool"`, `"type":"int"`},
		{`"type":"text","stats":[1]`, `"type":"text","stats":[2]`},
		{`"type":"text","stats":[1]`, `"type":"text","stats":[1,2]`},
		{`"stats":[3,0,1,2,1,1]`, `"stats":[3,0,1,2,1]`},
		{`"stats":[3,0,1,2,1,1]`, `"stats":[2,0,1,2,1,1]`},
		{`"stats":[3,0,1,2,1,1]`, `"stats":[3,0,5,2,1,1]`},
		{`"stats":[3,0,1,2,1,1]`, `"stats":[3,0,"1",2,1,1]`},
		{`"columns":[`, `"columns":{},"c":[`},
		{`"data":"`, `"data":"*`},
		{`"data":"`, `"daten":"`},
		{`{"id"`, `["id"`},
	} {
		bad := strings.Replace(good, v[0], v[1], 1)
		require.NotEqual(t, good, bad, "%s is not in %s", v[0], good)
		require.Error(t, openAll(t, []byte(bad)), "%s for %s", v[1], v[0])
	}
	for _, bad := range []string{"", "{}", "[]", "null", "1", `"chunk"`, good + good, good + "x"} {
		require.Error(t, openAll(t, []byte(bad)), bad)
	}
}
