package replay_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/ops/replay"

	"github.com/stretchr/testify/require"
)

// Whatever a file holds, each message that is counted as a reading is one, and every bad line is a line.
func FuzzFiles(f *testing.F) {
	for _, seed := range []string{
		"time,id,a\n2026-01-01,d,1\n\"2026-01-01\",\"d\",\"x\ny\"\n5,d,\"1\n", "time;a\n1.5e3;NaN\r\n",
		"time\ta\n1\t2\t3\n", "time,\"a\n1\",b\n1,2,3", "\ufeff" + `{"tenant":"a","device":"b","ts":1.5,"values":{"a":1}}` +
			"\n",
		`[{"tenant":"a","device":"b","ts":"2026-01-01T00:00:00Z","values":{"a":true}},{}]` + "\n\n5",
		"m,id=a f=\"1\n2\",g=1i 5\n#\nm f=1\nm,id=b f=\"\n", "\x1f\x8b",
	} {
		for format := range byte(3) {
			f.Add([]byte(seed), format)
		}
	}
	formats := []replay.Format{replay.CSV, replay.NDJSON, replay.LineProtocol}
	path := filepath.Join(f.TempDir(), "file")
	d := decode.New(decode.Options{})
	f.Fuzz(func(t *testing.T, data []byte, format byte) {
		require.NoError(t, os.WriteFile(path, data, 0o600))
		cfg := config(path)
		cfg.Format = string(formats[int(format)%len(formats)])
		cfg.Messages.DeviceTag, cfg.DeviceColumn = "id", "id"
		if len(data)%2 == 0 {
			cfg.ShiftTo = "now"
		}
		k := newTopic(t, 1)
		s, err := replay.RunTo(context.Background(), cfg, k)
		_, values := k.all()
		require.Len(t, values, s.Records)
		if err != nil { // perhaps a quote that is not closed, behind good rows
			return
		}
		readings, rows := 0, 0
		for _, v := range values {
			got := d.Decode(decode.Record{Value: []byte(v), ContentType: "application/json"})
			require.Len(t, got.Readings, 1-len(got.Bad))
			for _, r := range got.Readings {
				readings++
				rows += len(r.Fields)
			}
		}
		require.Equal(t, s.Readings, readings)
		require.Equal(t, s.Values, rows)
		require.Equal(t, s.Records, s.Readings)
		for _, line := range s.BadLineNumbers {
			require.LessOrEqual(t, line, bytes.Count(data, []byte{'\n'})+1)
			require.Positive(t, line)
		}
	})
}
