package chunk_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fastjson"
)

// FuzzParse gives any document to Parse, Frame and Print. What they accept must be a frame that Encode accepts too.
func FuzzParse(f *testing.F) {
	golden, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	require.NoError(f, err)
	for _, name := range golden {
		doc, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(doc)
	}
	f.Add(encode(f, labelled()))
	f.Add(encode(f, frameOf(truckPoints(3, 12))))
	f.Add(written(3, zeros))
	f.Fuzz(func(t *testing.T, doc []byte) { read(t, doc) })
}

// FuzzColumn gives any packet to the decoder of a column, which fuzzing through base64 would hardly reach.
func FuzzColumn(f *testing.F) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 40 {
		for _, c := range packetsOf(f, randomFrame(r, 600)) {
			f.Add(uint8(c.kind-1), uint16(c.rows), c.packet)
		}
	}
	f.Add(uint8(2), uint16(3), zeros)
	f.Add(uint8(1), uint16(9), []byte{2, 3, 1, 2, 3})
	f.Fuzz(func(t *testing.T, kind uint8, rows uint16, packet []byte) {
		k := telemetry.Kind(kind%4 + 1)
		stats := `[%d,0,0,0,0,0]`
		if k == telemetry.Text {
			stats = `[%d]`
		}
		whole := string(written(int(rows), zeros))
		column := fmt.Sprintf(`"type":%q,"stats":`+stats+`,"data":%q}`, k, rows, base64.StdEncoding.EncodeToString(packet))
		from := fmt.Sprintf(`"type":"int","stats":[%d,0,0,0,0,0],"data":"AQMAAAA="}`, rows)
		require.Contains(t, whole, from)
		read(t, []byte(strings.Replace(whole, from, column, 1)))
	})
}

// FuzzPack gives any index and any values to the decoder of a pack.
func FuzzPack(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, metrics := range []int{9, 17, 40} {
		v, err := fastjson.ParseBytes(encode(f, wideFrame(r, metrics, 1+r.IntN(20))))
		require.NoError(f, err)
		for _, p := range v.GetArray("columns") {
			index, err := base64.StdEncoding.DecodeString(string(p.GetStringBytes("index")))
			require.NoError(f, err)
			data, err := base64.StdEncoding.DecodeString(string(p.GetStringBytes("data")))
			require.NoError(f, err)
			f.Add(uint16(p.GetInt("pack")), uint16(v.GetInt("rows")), index, data)
		}
	}
	f.Fuzz(func(t *testing.T, n, rows uint16, index, data []byte) {
		whole := string(written(int(rows), zeros))
		from := fmt.Sprintf(`{"metric":"000000","type":"int","stats":[%d,0,0,0,0,0],"data":"AQMAAAA="}`, rows)
		require.Contains(t, whole, from)
		pack := fmt.Sprintf(`{"pack":%d,"index":%q,"data":%q}`, n, base64.StdEncoding.EncodeToString(index),
			base64.StdEncoding.EncodeToString(data))
		read(t, []byte(strings.Replace(whole, from, pack, 1)))
	})
}

func read(t *testing.T, doc []byte) {
	c, err := chunk.Parse(doc)
	if err != nil {
		require.ErrorIs(t, err, chunk.ErrCorrupt)
		return
	}
	_ = c.Print(io.Discard, 3)
	frame, err := c.Frame(nil)
	if err != nil {
		require.ErrorIs(t, err, chunk.ErrCorrupt)
		return
	}
	if again, err := chunk.Encode(c.Header, frame); err == nil {
		requireSame(t, frame, again)
	} else {
		require.ErrorIs(t, err, chunk.ErrTooLarge)
	}
}

// columnPacket is what a listed chunk has of one column.
type columnPacket struct {
	kind   telemetry.Kind
	rows   int
	packet []byte
}

// packetsOf are the columns' packets of a frame's chunk, none if it is a small one.
func packetsOf(t testing.TB, f chunk.Frame) (out []columnPacket) {
	v, err := fastjson.ParseBytes(encode(t, f))
	require.NoError(t, err)
	if !v.Exists("time") {
		return nil
	}
	for _, c := range v.GetArray("columns") {
		packet, err := base64.StdEncoding.DecodeString(string(c.GetStringBytes("data")))
		require.NoError(t, err)
		kind, _ := telemetry.ParseKind(string(c.GetStringBytes("type")))
		out = append(out, columnPacket{kind, len(f.Groups[c.GetInt("labels")].Times), packet})
	}
	return out
}

// FuzzRoundTrip takes random frames of a seed, with raw bits from data strewn in.
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint64(1), []byte{})
	f.Add(uint64(2), binary.LittleEndian.AppendUint64(nil, 0x7FF0000000000001))
	f.Fuzz(func(t *testing.T, seed uint64, data []byte) {
		r := rand.New(rand.NewPCG(seed, 7))
		frame := randomFrame(r, 80)
		for i := range frame.Groups {
			for j := range frame.Groups[i].Columns {
				c := &frame.Groups[i].Columns[j]
				for k := range c.Bits {
					if len(data) < 8 || c.Kind == telemetry.Bool {
						break
					}
					c.Bits[k] = binary.LittleEndian.Uint64(data)
					data = data[8:]
				}
			}
		}
		doc, err := chunk.Encode(headerOf(frame), frame)
		require.NoError(t, err)
		requireSame(t, frame, doc)
	})
}
