package decode_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/influxdata/line-protocol/v2/lineprotocol"
	"github.com/stretchr/testify/require"
)

// lines are entries of line protocol of producers that write them each in its way, and what is next to them.
var lines = []string{
	truckLine,
	truckLine + "\n",
	"cpu,cpu=cpu0,name=gw usage_idle=97.5,usage_user=1.5 1795183200000000000\n",
	"cpu,cpu=cpu1,name=gw usage_idle=-0,usage_user=.5 1795183200000000000\n",
	"cpu,cpu=cpu1,name=gw usage_user=1e3,usage_idle=007 -1\r\n",
	"mem,name=gw,tenant=b free=23i,total=9223372036854775807u,ok=t,no=FALSE,s=\"on\" 5\n",
	"mem,name=gw,tenant=b free=-9223372036854775808i,total=0u,ok=true,no=F,s=\"Gerät °\" 5\n",
	"mem,name=gw,tenant=b free=-1u,total=1.5i,ok=tru,no=F,s=\"\" 5\n",
	"mem,name=gw,tenant=b free=1i,total=0u,ok=T,no=f,s=\"a \\\"b\\\" \\\\ c\" 5\n",
	"mem,name=gw,tenant=b free=1i,total=0u,ok=T,no=f,s=\"a\\\\\" 5\n",
	"m,name=gw a\\ b=1,c\\=d=2 5\n",
	"m,name=gw a\\ b=1,c=2 5\n",
	"m,name=g\\ w f=1,g=\"a \\\"b\\\" \\\\ c\" 5\n",
	"m,name=gw f=\"1\n2\",g=\"x\" 5\n",
	"m,name=gw g=1\n",
	"m,name=gw g=1 \n",
	"m,name=gw  g=1  9223372036854775807 \n",
	"m,name=gw g=1 9223372036854775808\n",
	"m,name=gw g=1 99999999999999999999\n",
	"m,name=gw g=1,g=2 5\n",
	"m,name=gw,t=é,name=gx g=1,h=2 5\n",
	"m,name=gw,l=a=b g=1,h=2 5\n",
	"m,name=gw, g=1,h=2 5\n",
	"m,name=gw g=1,h=nan,i=-inf,j=0x1p2,k=1_0 5\n",
	"m,name=gw j=-inf 5\n",
	"m g=1 5\n",
	"m,tenant=acme,name=a/b g=1 5\n",
	"m,name=gw g=123456789012345678901234567890,h=0.1234567890123456789 1\r",
	"# m,name=gw g=1 5\n",
	"\n", " \t", "#",
	"m,name=gw a\"=1,b=\"2\" 5\n",
	"\xff,name=gw g=1 5\n",
	"m,name=gw g=\"\xff\" 5\n",
	"m,n\x7f=gw g=1 5\n",
}

// lineOptions are those that bear on lines, and the precision of their times.
var lineOptions = []struct {
	opts      decode.Options
	precision string
}{
	{decode.Options{
		Tenant: "acme", Lines: decode.Lines{DeviceTag: "name", TenantTag: "tenant", Tags: []string{"fleet", "t"}},
	}, ""},
	{decode.Options{
		Tenant: "acme", Device: "d", Lines: decode.Lines{DeviceTag: "name", Metric: "field"},
	}, "; precision=ms"},
	{decode.Options{Bound: "acme", Lines: decode.Lines{DeviceTag: "name", TenantTag: "tenant"}}, "; precision=s"},
	{decode.Options{
		Set: decode.Names{Tenant: "x", Device: "y"}, Lines: decode.Lines{DeviceTag: "name"},
	}, "; precision=us"},
	{decode.Options{Tenant: "acme", Sequence: "seq", Lines: decode.Lines{DeviceTag: "cpu"}}, "; precision=ns"},
}

// requireFreshLines is requireFresh for line protocol.
func requireFreshLines(t *testing.T, d *decode.Decoder, which int, payload []byte) {
	t.Helper()
	o := lineOptions[which%len(lineOptions)]
	r := decode.Record{Value: payload, ContentType: "text/plain; format=influx" + o.precision, Timestamp: 1763640000000}
	want, got := decode.New(o.opts).Decode(r), d.Decode(r)
	require.Equal(t, append([]decode.Bad{}, want.Bad...), append([]decode.Bad{}, got.Bad...), "%q", payload)
	require.Equal(t, append([]int{}, want.Index...), append([]int{}, got.Index...), "%q", payload)
	require.Len(t, got.Readings, len(want.Readings), "%q", payload)
	for i := range want.Readings {
		require.Equal(t, fmt.Sprintf("%#v", want.Readings[i]), fmt.Sprintf("%#v", got.Readings[i]), "%q", payload)
		for k, f := range want.Readings[i].Fields {
			require.Equal(t, f.Value.Bits(), got.Readings[i].Fields[k].Value.Bits(), "%q", payload)
		}
	}
}

// What was learnt of lines never shows in what later ones are found to be, whatever is changed in them.
func FuzzLinePlaces(f *testing.F) {
	for i, line := range lines {
		f.Add(uint8(i), []byte(line), []byte(lines[(i+1)%len(lines)]), len(line)/2, "\"")
		f.Add(uint8(0), []byte(line), []byte(line), len(line)-1, "5")
		f.Add(uint8(0), []byte(strings.Join(lines[:i], "")), []byte(line), i, "\\")
	}
	f.Fuzz(func(t *testing.T, which uint8, a, b []byte, at int, insert string) {
		d := decode.New(lineOptions[int(which)%len(lineOptions)].opts)
		for range 3 {
			requireFreshLines(t, d, int(which), a)
		}
		requireFreshLines(t, d, int(which), b)
		if at < 0 || at > len(a) {
			return
		}
		requireFreshLines(t, d, int(which), append(append(append([]byte{}, a[:at]...), insert...), a[at:]...))
		if end := at + len(insert); end <= len(a) {
			requireFreshLines(t, d, int(which), append(append(append([]byte{}, a[:at]...), insert...), a[end:]...))
		}
		requireFreshLines(t, d, int(which), append(append([]byte{}, a...), b...))
		requireFreshLines(t, d, int(which), a)
	})
}

// Lines of all kinds, several in a record, changed in one place each.
func TestLinePlacesGiveTheSameResult(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 0))
	t.Log("seed", seed)
	odd := []string{"", `"`, `\`, "\n", " ", ",", "=", "#", "0", "-", ".", "e", "i", "u", "t", "\r", "\t", "é", "\xff",
		"\x00", "\x7f", `\ `, `\"`, "\r\n", "1234567890", ",a=1", ",name=x", "  "}
	for which, o := range lineOptions {
		d := decode.New(o.opts)
		for range 1500 {
			var payload strings.Builder
			for range 1 + r.IntN(4) {
				line := lines[r.IntN(len(lines))]
				if r.IntN(3) == 0 {
					line = lines[r.IntN(8)]
				}
				if r.IntN(3) == 0 {
					at := r.IntN(len(line))
					line = line[:at] + odd[r.IntN(len(odd))] + line[min(len(line), at+r.IntN(3)):]
				}
				payload.WriteString(line)
			}
			requireFreshLines(t, d, which, []byte(payload.String()))
		}
	}
}

// Fields are found where they were, of whatever device, and as many kinds of lines as an agent has.
func TestFieldsAreFoundWhereTheyWere(t *testing.T) {
	d := decode.New(lineOptions[0].opts)
	for i := range 100 {
		requireFreshLines(t, d, 0, []byte(strings.Replace(truckLine, "0042", strconv.Itoa(i), 1)+"\n"))
	}
	require.Equal(t, 100+10, d.LineLookups(), "a head for each device, and the fields of the first line")

	d = decode.New(lineOptions[0].opts)
	var record strings.Builder
	for i := range 20 {
		fmt.Fprintf(&record, "m%d,name=gw,cpu=c%d a=%d.5,b=%di,c=t,d=\"on\" 5\n", i, i, i, i)
	}
	for range 10 {
		requireFreshLines(t, d, 0, []byte(record.String()))
	}
	require.Equal(t, 20*5, d.LineLookups())
}

// What is line protocol, and which names, strings and times it has, is as InfluxData's own library reads it.
func TestLinesAsTheLibraryReadsThem(t *testing.T) {
	const seed = 12
	r := rand.New(rand.NewPCG(seed, 0))
	t.Log("seed", seed)
	odd := []string{"", `"`, `\`, " ", ",", "=", "#", "0", "-", "e", "i", "t", "\r", "\t", "é", "\x00", `\ `, `\"`, `\\`, `\=`, "  "}
	d := decode.New(decode.Options{Tenant: "acme", Device: "d", Lines: decode.Lines{DeviceTag: "-", Metric: "field"}})
	for range 20_000 {
		line := lines[r.IntN(len(lines))]
		for range r.IntN(3) {
			at := r.IntN(len(line) + 1)
			line = line[:at] + odd[r.IntN(len(odd))] + line[min(len(line), at+r.IntN(2)):]
		}
		if !utf8.ValidString(line) || strings.Contains(strings.TrimSuffix(line, "\n"), "\n") ||
			strings.Contains(line, `\n`) || strings.Contains(line, `\t`) || strings.Contains(line, `\r`) {
			continue // several lines, or what the library takes for control characters
		}
		got := d.Decode(decode.Record{Value: []byte(line + "\n"), ContentType: "text/plain; format=influx; precision=ms"})
		values, labels, at, read := readByLibrary([]byte(line))
		if len(got.Readings) == 0 {
			refused := len(got.Bad) > 0 && got.Bad[0].Reason != decode.Undecodable
			require.True(t, !read || refused || len(values) == 0, "%q %v", line, got)
			continue
		}
		x := got.Readings[0]
		require.True(t, read, "%q", line)
		require.Len(t, x.Fields, len(values), "%q", line)
		for _, f := range x.Fields {
			if text := f.Value; text.Kind() == telemetry.Text {
				require.Equal(t, values[f.Metric], text.Text(), "%q", line)
			}
			require.Contains(t, values, f.Metric, "%q", line)
		}
		require.Len(t, x.Labels, len(labels), "%q", line)
		for _, l := range x.Labels {
			require.Equal(t, labels[l.Name], l.Value, "%q", line)
		}
		if at != "" {
			want, err := strconv.ParseInt(at, 10, 64)
			require.NoError(t, err, "%q", line)
			require.Equal(t, want, x.Time, "%q", line)
		}
	}
}

// readByLibrary returns the raw values, the tags and the time of a line.
func readByLibrary(line []byte) (values, tags map[string]string, at string, ok bool) {
	values, tags = map[string]string{}, map[string]string{}
	lp := lineprotocol.NewDecoderWithBytes(line)
	if !lp.Next() {
		return values, tags, "", true
	}
	if _, err := lp.Measurement(); err != nil {
		return nil, nil, "", false
	}
	for {
		name, value, err := lp.NextTag()
		if err != nil {
			return nil, nil, "", false
		}
		if name == nil {
			break
		}
		tags[string(name)] = string(value)
	}
	for {
		name, _, raw, err := lp.NextFieldBytes()
		if err != nil {
			return nil, nil, "", false
		}
		if name == nil {
			break
		}
		values[string(name)] = string(raw)
	}
	raw, err := lp.TimeBytes()
	return values, tags, string(raw), err == nil
}
