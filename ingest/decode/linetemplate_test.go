package decode_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"binnacle/ingest/decode"

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

// requireFreshLines is requireFresh for line protocol: without templates, the same is found.
func requireFreshLines(t *testing.T, d *decode.Decoder, which int, payload []byte) {
	t.Helper()
	o := lineOptions[which%len(lineOptions)]
	r := decode.Record{Value: payload, ContentType: "text/plain; format=influx" + o.precision, Timestamp: 1763640000000}
	plain := decode.New(o.opts)
	plain.WithoutTemplates()
	want, got := plain.Decode(r), d.Decode(r)
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
func FuzzLineTemplates(f *testing.F) {
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
func TestLineTemplatesGiveTheSameResult(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 0))
	t.Log("seed", seed)
	odd := []string{"", `"`, `\`, "\n", " ", ",", "=", "#", "0", "-", ".", "e", "i", "u", "t", "\r", "\t", "é", "\xff",
		"\x00", "\x7f", `\ `, `\"`, "\r\n", "1234567890", ",a=1", ",name=x", "  "}
	for which, o := range lineOptions {
		d := decode.New(o.opts)
		for range 4000 {
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
		if which != 3 {
			require.Greater(t, d.LineFits(), 100, which)
		} else {
			require.Zero(t, d.LineFits())
		}
	}
}

// Lines are read by template from the second of their kind on, of whatever device, and as many kinds as an agent has.
func TestLineTemplatesMatchSimilarLines(t *testing.T) {
	d := decode.New(lineOptions[0].opts)
	for i := range 100 {
		requireFreshLines(t, d, 0, []byte(strings.Replace(truckLine, "0042", strconv.Itoa(i), 1)+"\n"))
	}
	require.Equal(t, 99, d.LineFits())

	d = decode.New(lineOptions[0].opts)
	var record strings.Builder
	for i := range 20 {
		fmt.Fprintf(&record, "m%d,name=gw,cpu=c%d a=%d.5,b=%di,c=t,d=\"on\" 5\n", i, i, i, i)
	}
	for range 10 {
		requireFreshLines(t, d, 0, []byte(record.String()))
	}
	require.Greater(t, d.LineFits(), 120)
}

// A device that never repeats the form of a line does not have templates tried for each.
func TestLineTemplatesPauseWithoutMatches(t *testing.T) {
	d := decode.New(lineOptions[0].opts)
	for i := range 2000 {
		requireFreshLines(t, d, 0, fmt.Appendf(nil, "m,name=a f%d=1 5\n", i))
	}
	require.Zero(t, d.LineFits())
	require.Less(t, d.LineTries(), 1000)
	for i := range 2000 {
		requireFreshLines(t, d, 0, fmt.Appendf(nil, "m,name=a f=%d 5\n", i))
	}
	require.Greater(t, d.LineFits(), 1500)
}
