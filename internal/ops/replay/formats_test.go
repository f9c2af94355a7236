package replay_test

import (
	"math"
	"strings"
	"testing"

	"binnacle/internal/ops/replay"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	cfg := config(writeFile(t, "x.csv", "\ufeffid;Time;b;a;\n"+
		"d1;2026-01-01 00:00:00;1;true;\n"+ // line 2
		"\n"+
		"d2;2026-01-01T00:00:00.5Z; 2.50 ;\"a \"\"b\"\";\nc\";x\r\n"+ // lines 4 and 5
		";2026-01-01;3;;\n"+ // line 6: no device
		"a/b;2026-01-01;3;;\n"+ // line 7: no device id
		"d3;2026-01-01;;;\n"+ // no value
		"d3;yesterday;1;;\n"+ // line 9
		"d3;2026-01-01;1\n"+ // line 10
		"d3;2026-01-01;1\"2;\"3\";\n"+ // line 11: quotes out of place
		"d3;2026-01-01;\xff;;\n"+ // line 12
		"d4;1767225600;-Inf;nan;"))
	cfg.Device, cfg.DeviceColumn = "", "id"
	s, keys, values := run(t, cfg)
	require.Equal(t, []string{"acme/d1", "acme/d2", "acme/d4"}, keys)
	require.Equal(t, []string{
		`{"tenant":"acme","device":"d1","ts":1767225600000,"values":{"a":true,"b":1}}`,
		`{"tenant":"acme","device":"d2","ts":1767225600500,"values":{"a":"a \"b\";\u000ac","b":2.5,"column_5":"x"}}`,
		`{"tenant":"acme","device":"d4","ts":1767225600000,"values":{"a":{"float":"NaN"},"b":{"float":"-Inf"}}}`,
	}, values)
	require.Equal(t, []int{6, 7, 9, 10, 11, 12}, s.BadLineNumbers)
	s.File, s.FirstBad, s.BadLineNumbers = "", "", nil
	require.Equal(t, replay.Summary{Format: replay.CSV, Records: 3, Readings: 3, Values: 7, BadLines: 6}, s)
}

// What follows a quote that is not closed is not read into memory, however long the file is.
func TestQuoteBeforeLongFile(t *testing.T) {
	s, err := replay.RunTo(t.Context(), config(writeFile(t, "x.csv",
		"time,a\n2026-01-01,1\n2026-01-01,\"1\n"+strings.Repeat("2026-01-01,1\n", 2<<20))), newTopic(t, 1))
	require.ErrorContains(t, err, "behind line 2: a row has more than 16777216 bytes: perhaps a quote is not closed")
	require.Equal(t, 1, s.Records)
}

// A quote that is not closed takes all lines that follow with it: the file ends there, and that is an error.
func TestTableWithAnOpenQuote(t *testing.T) {
	k := newTopic(t, 1)
	s, err := replay.RunTo(t.Context(), config(writeFile(t, "x.csv",
		"time,a\n2026-01-01,1\n2026-01-02,\"2\n2026-01-03,3\n2026-01-04,4\n")), k)
	require.ErrorContains(t, err, "line 3")
	require.Equal(t, 1, s.Records)
}

// A line that can't be read says why, and cells that look like numbers and are none are counted.
func TestTableSaysWhatIsWrong(t *testing.T) {
	for row, why := range map[string]string{
		"13/01/2026 10:00;1":     `the time "13/01/2026 10:00" does not say which number is the day and which the month`,
		"01.02.26;1":             `the time "01.02.26" does not say which number is the day`,
		";1":                     "it has no time",
		"2026-01-01":             "it has 1 cells; the line of column names has 2",
		"2026-13-01 00:00:00;1":  `"2026-13-01 00:00:00" is not a time, such as`,
		"2026-01-01;\"1":         `extraneous or missing " in quoted-field`,
		"2026-01-01;1;2":         "it has 3 cells",
		"2026-01-01 24:00:00;0 ": "is not a time",
	} {
		s, _, _ := run(t, config(writeFile(t, "x.csv", "time;a\n"+row+"\n")))
		require.Equal(t, 1, s.BadLines, row)
		require.Contains(t, s.FirstBad, why, row)
	}
	s, _, _ := run(t, config(writeFile(t, "x.csv",
		"time;a;b\n2026-01-01;1;x\n2026-01-02;21,5;-1.234,5\n2026-01-03;5 V;none\n2026-01-04;-;+\n")))
	require.Equal(t, 3, s.Texts)
	require.Equal(t, `"21,5" in column a of line 3: a decimal comma? Numbers have a point`, s.FirstText)
}

func TestTimesOfAnotherKind(t *testing.T) {
	s, _, _ := run(t, config(writeFile(t, "x.csv", "time,n\n2026-11-27T8:00:00Z,1\n2026-11-27T08:00:00+24:00,1\n")))
	require.Equal(t, 2, s.BadLines)
}

func TestDelimiters(t *testing.T) {
	for _, text := range []string{
		"time,a,b\n2026-01-01,1,2\n",
		"time;a;b\n2026-01-01;1;2\n",
		"time\ta\tb\n2026-01-01\t1\t2",
		"time|a|b\n2026-01-01|1|2\n",
		"\"time\",\"a\",\"b\"\r\n\"2026-01-01\",\"1\",\"2\"\r\n",
		"time;a;b\n2026-01-01;1;2\n2026-01-01;\"x,y,z,w\";2\n2026-01-01;1;2\n",
		"time;a;b\n2026-01-01;1,5,7;2\n2026-01-01;1;2\n",
	} {
		_, _, values := run(t, config(writeFile(t, "x.csv", text)))
		require.Contains(t, values[0], `"b":2`, text)
	}
}

func TestCells(t *testing.T) {
	float := telemetry.FloatValue
	for text, want := range map[string]telemetry.Value{
		"1":                    float(1),
		" 1.50\t":              float(1.5),
		"-0":                   float(math.Copysign(0, -1)),
		"+5":                   float(5),
		".5":                   float(.5),
		"5.":                   float(5),
		"1e3":                  float(1000),
		"007":                  float(7),
		"NaN":                  float(math.NaN()),
		"nan":                  float(math.NaN()),
		"Inf":                  float(math.Inf(1)),
		"+Inf":                 float(math.Inf(1)),
		"-inf":                 float(math.Inf(-1)),
		"Infinity":             float(math.Inf(1)),
		"9007199254740992":     float(1 << 53),
		"9007199254740993":     telemetry.IntValue(1<<53 + 1),
		"-9007199254740993":    telemetry.IntValue(-1<<53 - 1),
		"9223372036854775807":  telemetry.IntValue(math.MaxInt64),
		"-9223372036854775808": float(math.MinInt64),
		"9223372036854775808":  float(1 << 63),
		"12345678901234567890": float(12345678901234567890),
		"9007199254740993.0":   float(1 << 53),
		"true":                 telemetry.BoolValue(true),
		" TRUE ":               telemetry.BoolValue(true),
		"False":                telemetry.BoolValue(false),
		"t":                    telemetry.TextValue("t"),
		"yes":                  telemetry.TextValue("yes"),
		"0x10":                 telemetry.TextValue("0x10"),
		"0x1p4":                telemetry.TextValue("0x1p4"),
		"1_000":                telemetry.TextValue("1_000"),
		"1,5":                  telemetry.TextValue("1,5"),
		"1e999":                telemetry.TextValue("1e999"),
		"1 2":                  telemetry.TextValue("1 2"),
		" two words ":          telemetry.TextValue(" two words "),
		"-":                    telemetry.TextValue("-"),
		"N/A":                  telemetry.TextValue("N/A"),
		"٣":                    telemetry.TextValue("٣"),
	} {
		got, ok := replay.Cell(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, empty := range []string{"", " ", "\t"} {
		_, ok := replay.Cell(empty)
		require.False(t, ok)
	}
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]int64{
		"2013-12-02 21:15:00":              1386018900000,
		"2013-12-02 21:15:00.1239":         1386018900123,
		"2013-12-02 21:15:00.123999999999": 1386018900123,
		"2013-12-02T21:15:00":              1386018900000,
		"2013-12-02T21:15:00Z":             1386018900000,
		"2013-12-02T21:15:00+02:00":        1386011700000,
		"2013-12-02 21:15:00+00:00":        1386018900000,
		"2013-12-02 21:15:00 +0100":        1386015300000,
		"2013-12-02 21:15":                 1386018900000,
		"2013-12-02":                       1385942400000,
		"1969-12-31 23:59:59.9999":         -1,
		"1386018900":                       1386018900000,
		"1386018900.123":                   1386018900123,
		"1386018900.9999":                  1386018900999,
		"1.3860189e9":                      1386018900000,
		"1386018900123":                    1386018900123,
		"1386018900123.9":                  1386018900123,
		"1386018900123999":                 1386018900123,
		"1386018900123999999":              1386018900123,
		"-1":                               -1000,
		"-0.0001":                          -1,
		"-0.0010":                          -1,
		"0":                                0,
		"5":                                5000,
		"+5":                               5000,
		".5":                               500,
	} {
		got, ok := replay.ParseTime(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, bad := range []string{"", "now", "21:15", "2013-13-02", "2013-02-30 00:00:00", "-", ".", "1e400", "--5", "1-2",
		"NaN",
		"9999999999999999999999999999", strings.Repeat("1", 70)} {
		_, ok := replay.ParseTime(bad)
		require.False(t, ok, bad)
	}
}

func TestMessages(t *testing.T) {
	good := `{"tenant":"acme","device":"m1","ts":0,"values":{"a":1}, "more": 5}`
	other := `{"tenant":"globex","device":"m2","ts":0,"values":{"a":1,"b":2}}`
	cfg := config(writeFile(t, "x.ndjson", "  "+good+" \r\n"+
		"\n"+
		`{"tenant":"acme"`+"\n"+ // line 3
		`{"tenant":"acme","ts":0,"values":{"a":1}}`+"\n"+ // line 4: no device
		"["+good+","+other+"]\n"+ // line 5
		"5\n"+
		`{"tenant":"acme","device":"m1","ts":0,"values":{"a":"`+strings.Repeat("x", 1<<20)+`"}}`+"\n"+ // line 7
		`{"tenant":"acme","device":"m1","ts":0,"values":{"a":"`+strings.Repeat("x", 1_000_000)+`"}}`+"\n"+ // line 8
		"\xff\n"+
		`{"resourceMetrics":[{"resource":{"attributes":[{"key":"tenant","value":{"stringValue":"acme"}},`+
		`{"key":"device","value":{"stringValue":"m1"}}]},"scopeMetrics":[{"metrics":[{"name":"a","gauge":{"dataPoints":[`+
		`{"timeUnixNano":"1000000000","asDouble":1},{"timeUnixNano":"2000000000","asDouble":2}]}}]}]}]}`+"\n"+ // line 10
		other))
	cfg.Tenant, cfg.Device = "", ""
	s, keys, values := run(t, cfg)
	require.Equal(t, []string{"acme/m1", "globex/m2"}, keys)
	require.Equal(t, []string{good, other}, values)
	s.File = ""
	require.Equal(t, replay.Summary{Format: replay.NDJSON, Records: 2, Readings: 2, Values: 3,
		BadLines: 8, BadLineNumbers: []int{3, 4, 5, 6, 7, 8, 9, 10},
		FirstBad: "not JSON: no comma or brace at byte 16"}, s)

	cfg = config(writeFile(t, "x.ndjson", `{"ts":"1970-01-01T00:00:01Z","values":{"a":1}}`))
	_, keys, values = run(t, cfg)
	require.Equal(t, []string{"acme/m1"}, keys)
	require.Equal(t, []string{`{"tenant":"acme","device":"m1","ts":1,"values":{"a":1}}`}, values)
}

func TestInflux(t *testing.T) {
	cfg := config(writeFile(t, "x.lp", "# a comment\n"+
		"m,name=d1,site=x,axle=rear a=1i,b=\"x\" 1763640000001000000\n"+
		"\n"+
		"m,site=x a=1 1763640000001000000\n"+ // line 4: no device
		"nonsense\n"+ // line 5
		"m,name=d1 a=\"1 1763640000001000000\n"+ // line 6
		"m,name=d1 a=2 1763640000000000001\n"+
		"m,name=a/b a=2 1763640000000000001\n"+ // line 8
		"m,name=d1 a=99999999999999999999i 1763640000000000001\n"+ // line 9
		"m,name=d2 a=3"))
	cfg.Device, cfg.Messages.DeviceTag, cfg.Messages.Tags = "", "name", []string{"site"}
	s, keys, values := run(t, cfg)
	require.Equal(t, []string{"acme/d1", "acme/d1", "acme/d2"}, keys)
	require.Equal(t, []string{
		`{"tenant":"acme","device":"d1","ts":1763640000001,"values":{"m_a":1,"m_b":"x"},"labels":{"axle":"rear"},"tags":{"site":"x"}}`,
		`{"tenant":"acme","device":"d1","ts":1763640000000,"values":{"m_a":2}}`,
		`{"tenant":"acme","device":"d2","ts":1795176000000,"values":{"m_a":3}}`,
	}, values)
	s.File = ""
	require.Equal(t, replay.Summary{Format: replay.LineProtocol, Records: 3, Readings: 3, Values: 4,
		BadLines: 5, BadLineNumbers: []int{4, 5, 6, 8, 9}, FirstBad: "the line has no device"}, s)

	cfg = config(writeFile(t, "x.lp", "m,tenant=globex a=1 0\nm a=2 0"))
	cfg.Tenant, cfg.Messages.TenantTag, cfg.Messages.Metric = "", "tenant", "field"
	s, keys, values = run(t, cfg)
	require.Equal(t, []string{"globex/m1"}, keys)
	require.Equal(t, []string{`{"tenant":"globex","device":"m1","ts":0,"values":{"a":1}}`}, values)
	require.Equal(t, 1, s.BadLines)
}

func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	_, _, values := run(t, config(writeFile(t, "x.csv",
		"time,a\n2026-01-01,"+long+"\n2026-01-02,\""+long+"\"\n2026-01-03,1")))
	require.Len(t, values, 3)
	require.Contains(t, values[0], long)
	_, _, values = run(t, config(writeFile(t, "x.lp", "m a=\""+long+"\" 1\nm a=1 2")))
	require.Len(t, values, 2)
	s, _, values := run(t, config(writeFile(t, "x.csv", "time,a\n2026-01-01,"+strings.Repeat(long, 20)+"\n2026-01-03,1")))
	require.Len(t, values, 1)
	require.Equal(t, []int{2}, s.BadLineNumbers)
}
