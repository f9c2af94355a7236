package decode_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// What stands for a character of names and strings of line protocol, by its specification, and beyond that in what
// Telegraf's serializer writes.
var (
	lineName     = strings.NewReplacer(",", `\,`, "=", `\=`, " ", `\ `)
	measurement  = strings.NewReplacer(",", `\,`, " ", `\ `)
	lineString   = strings.NewReplacer(`"`, `\"`, `\`, `\\`)
	fromTelegraf = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`, "\t", `\t`, "\r", `\r`, "\f", `\f`)
	controls     = strings.NewReplacer("\n", `\n`, "\t", `\t`, "\r", `\r`, "\f", `\f`)
)

func readLine(t *testing.T, line string) telemetry.Reading {
	t.Helper()
	got := decode.New(decode.Options{Tenant: "acme", Device: "m1"}).Decode(
		decode.Record{Value: []byte(line), ContentType: "text/plain; format=influx"})
	require.Empty(t, got.Bad, "%q", line)
	require.Len(t, got.Readings, 1, "%q", line)
	return got.Readings[0]
}

func TestLineEscapes(t *testing.T) {
	for written, want := range map[string]string{
		`C:\new\table\readme`: `C:\new\table\readme`,
		`C:\\new\\table`:      `C:\new\table`,
		`\n\r\t\f\a\x\,\ \=`:  `\n\r\t\f\a\x\,\ \=`,
		`\\n\"\\\"\\\\t`:      `\n"\"\\t`,
		`a=\"\n\",b=\"c`:      `a="\n",b="c`,
		"line\nend\r\ttab":    "line\nend\r\ttab",
		`\\`:                  `\`,
	} {
		r := readLine(t, `m,dir=C:\new,k=a\=\"b s="`+written+`",f=1i 5`)
		require.Equal(t, telemetry.TextValue(want), r.Fields[1].Value, written)
		require.Equal(t, telemetry.Labels{{Name: "dir", Value: `C:\new`}, {Name: "k", Value: `a=\"b`}}, r.Labels)
	}
}

// Names and strings that are written by the specification are read as they were, with and without a backslash before
// each backslash; of what Telegraf writes only control characters differ: they stay the two characters it writes.
func TestLinesOfSerializers(t *testing.T) {
	const seed = 33
	r := rand.New(rand.NewPCG(seed, 2))
	text := func(alphabet string) string {
		all := []rune(alphabet)
		out := make([]rune, 1+r.IntN(8))
		for i := range out {
			out[i] = all[r.IntN(len(all))]
		}
		return string(out)
	}
	name := func() string { return text(`nrt\=, "é`) + "x" } // no name ends with a backslash
	for range 3000 {
		first, tag, value, field := "m"+name(), name(), name(), name()
		head := measurement.Replace(first) + "," + lineName.Replace(tag) + "=" + lineName.Replace(value) + " " +
			lineName.Replace(field) + `="`
		s := text("nrtf\\\"=, é\n\r\t\f")
		plain := s
		if strings.ContainsAny(s, `"`) || strings.Contains(s, `\\`) || strings.HasSuffix(s, `\`) {
			plain = lineString.Replace(s)
		}
		for line, want := range map[string]string{
			lineString.Replace(s): s, plain: s, fromTelegraf.Replace(s): controls.Replace(s),
		} {
			got := readLine(t, head+line+`" 5`)
			require.Equal(t, want, got.Fields[0].Value.Text(), "seed %d: %q", seed, line)
			require.Equal(t, first+"_"+field, got.Fields[0].Metric, "seed %d", seed)
			require.Equal(t, telemetry.Labels{{Name: tag, Value: value}}, got.Labels, "seed %d", seed)
		}
	}
}
