package decode_test

import (
	"math"
	"strconv"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

var influx = decode.Options{Lines: decode.Lines{
	DeviceTag: "name", TenantTag: "tenant", Tags: []string{"fleet", "model"},
}}

func decodeLines(opts decode.Options, payload, precision string) decode.Result {
	contentType := "text/plain; format=influx"
	if precision != "" {
		contentType += "; precision=" + precision
	}
	return decode.New(opts).Decode(decode.Record{Value: []byte(payload), ContentType: contentType, Timestamp: 1234})
}

func TestLine(t *testing.T) {
	got := decodeLines(influx, `readings,name=truck\ 1,tenant=acme,fleet=East,driver=Se\,th,model=é `+
		`velocity=2,i=-23i,u=42u,ok=t,no=FALSE,s="a \"b\" \\ c",velocity=2 1763640000123999999`, "")
	require.Empty(t, got.Bad)
	require.Equal(t, []telemetry.Reading{{
		Tenant: "acme", Device: "truck 1", Time: 1763640000123,
		Fields: []telemetry.Field{
			{Metric: "readings_i", Value: telemetry.IntValue(-23)},
			{Metric: "readings_no", Value: telemetry.BoolValue(false)},
			{Metric: "readings_ok", Value: telemetry.BoolValue(true)},
			{Metric: "readings_s", Value: telemetry.TextValue(`a "b" \ c`)},
			{Metric: "readings_u", Value: telemetry.IntValue(42)},
			{Metric: "readings_velocity", Value: telemetry.FloatValue(2)},
		},
		Labels: telemetry.Labels{{Name: "driver", Value: "Se,th"}},
		Tags:   telemetry.Labels{{Name: "fleet", Value: "East"}, {Name: "model", Value: "é"}},
	}}, got.Readings)

	bare := influx
	bare.Metric, bare.Tenant, bare.Device = "field", "globex", "m1"
	got = decodeLines(bare, "readings velocity=1", "")
	require.Empty(t, got.Bad)
	require.Equal(t, []telemetry.Reading{{
		Tenant: "globex", Device: "m1", Time: 1234,
		Fields: []telemetry.Field{{Metric: "velocity", Value: telemetry.FloatValue(1)}},
	}}, got.Readings)
}

func TestLineTimes(t *testing.T) {
	for _, c := range []struct {
		precision, time string
		want            int64
	}{
		{"", "1763640000", 1763640000000}, {"", "1763640000999999999", 1763640000999}, {"", "-7", -7000},
		{"ns", "999999", 0}, {"ns", "1000000", 1}, {"ns", "-1", -1}, {"ns", "-1000000", -1}, {"ns", "-1000001", -2},
		{"us", "1999", 1}, {"us", "-1", -1}, {"ms", "-7", -7}, {"s", "-7", -7000},
		{"s", "9223372036854775", 9223372036854775000},
		{"", "", 1234}, {"s", "", 1234},
	} {
		got := decodeLines(influx, "m,name=a,tenant=b f=1 "+c.time, c.precision)
		require.Empty(t, got.Bad, c)
		require.Equal(t, c.want, got.Readings[0].Time, c)
	}
	got := decodeLines(influx, "m,name=a,tenant=b f=1 9223372036854776", "s")
	require.Equal(t, decode.Time, got.Bad[0].Reason)
}

func TestBadLines(t *testing.T) {
	for line, want := range map[string]decode.Reason{
		"m,name=a,tenant=b":                         decode.Undecodable,
		"m,name=a,tenant=b f":                       decode.Undecodable,
		"m,name=a,tenant=b f=":                      decode.Undecodable,
		"m,name=a,tenant=b f=1,":                    decode.Undecodable,
		`m,name=a,tenant=b f="x`:                    decode.Undecodable,
		"m,name=a,tenant=b, f=1":                    decode.Undecodable,
		"m,name=a,tenant=b f=\"\xff\" 1":            decode.Undecodable,
		"m,name=a,tenant=b f=1 9223372036854775808": decode.Time,
		"m,name=a,tenant=b f=1 12x":                 decode.Time,
		"m,name=a,tenant=b f=1 1 2":                 decode.Time,
		"m,name=a,tenant=b f=9223372036854775808i":  decode.Value,
		"m,name=a,tenant=b f=9223372036854775808u":  decode.Value,
		"m,name=a,tenant=b f=-1u":                   decode.Value,
		"m,name=a,tenant=b f=1.5i":                  decode.Value,
		"m,name=a,tenant=b f=1e999":                 decode.Value,
		"m,name=a,tenant=b f=0x10":                  decode.Value,
		"m,name=a,tenant=b f=1_0":                   decode.Value,
		"m,name=a,tenant=b f=tru":                   decode.Value,
		"m,tenant=b f=1":                            decode.Device,
		"m,name=a/b,tenant=b f=1":                   decode.Device,
		"m,name=a f=1":                              decode.Tenant,
		"m,name=a,tenant=B f=1":                     decode.Tenant,
		"m,name=a,tenant=b,l\u0085=1 f=1":           decode.Name,
		"m,name=a,tenant=b,l=1 \u0085=1":            decode.Name,
	} {
		got := decodeLines(influx, line, "")
		require.Empty(t, got.Readings, line)
		require.Len(t, got.Bad, 1, line)
		require.Equal(t, want, got.Bad[0].Reason, "%s: %s", line, got.Bad[0].Detail)
	}
}

// Floats are what strconv reads, to the last bit, however they are written.
func TestFloatsOfLines(t *testing.T) {
	for _, text := range []string{"0", "-0", "-0.0", "1", "01", "1.", ".5", "-.5", "0.30", "-12.75", "999999999999999",
		"9999999999999999", "0.000000000000001", "74.93588199999998", "1e5", "-1.5E-3", "123456789.123456"} {
		want, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		got := decodeLines(influx, "m,name=a,tenant=b f="+text, "")
		require.Len(t, got.Readings, 1, text)
		require.Equal(t, math.Float64bits(want), got.Readings[0].Fields[0].Value.Bits(), text)
	}
}

// Index counts lines, blank ones, comments and the insides of strings included; a bad line does not
// touch its neighbours.
func TestLinesAreIndependent(t *testing.T) {
	const tags = "m,name=a,tenant=b "
	for _, c := range []struct {
		payload    string
		index, bad []int
	}{
		{tags + "f=1\n\n# x\n" + tags + "f=2\r\n  \n" + tags + "f=3", []int{0, 3, 5}, nil},
		{tags + "f=1\nnonsense\n" + tags + "f=2\n", []int{0, 2}, []int{1}},
		{tags + "f=\"1\n2\n3\"\n" + tags + "f=2\n", []int{0, 3}, nil},
		{tags + "f=\"1\n" + tags + "f=2\n" + tags + "f=3", []int{1, 2}, []int{0}},
		{tags + "f=\"1\n" + tags + "f=\"x\"\n" + tags + "f=3", []int{1, 2}, []int{0}},
		{tags + "f=1,g\"h=2\n" + tags + "f=\"x\"\n", []int{0, 1}, nil},
		{tags + "f=1\\\n" + tags + "f=2\n", []int{1}, []int{0}},
		{"# \"\n" + tags + "f=\"x\"\n", []int{1}, nil},
		{"\xff\n" + tags + "f=2\n", []int{1}, []int{0}},
		{"#\n\n", nil, nil},
	} {
		got := decodeLines(influx, c.payload, "")
		require.Len(t, got.Readings, len(c.index), c.payload)
		for i, want := range c.index {
			require.Equal(t, want, got.Index[i], c.payload)
		}
		require.Len(t, got.Bad, len(c.bad), c.payload)
		for i, want := range c.bad {
			require.Equal(t, want, got.Bad[i].Index, c.payload)
		}
	}
}

// Lines as Telegraf 1.37 has written them: its escapes, and a text with a line end.
func TestLinesOfTelegraf(t *testing.T) {
	opts := decode.Options{Tenant: "acme"}.ForTopic("telegraf")
	got := decode.New(opts).Decode(decode.Record{Value: []byte("cpu,cpu=cpu0,host=gw-7 usage_idle=97.5,usage_user=1.5 " +
		"1795183200000000000\n" +
		`odd\ name\,x,a\=b=c\,d,host=gw\ 7 s="a \"b\" \\ ` + "\n" + ` c",b=true,i=-5i 1795183200000000000` + "\n")})
	require.Empty(t, got.Bad)
	require.Equal(t, []int{0, 1}, got.Index)
	require.Equal(t, "gw-7", got.Readings[0].Device)
	require.Equal(t, telemetry.Reading{
		Tenant: "acme", Device: "gw 7", Time: 1795183200000,
		Fields: []telemetry.Field{
			{Metric: "odd name,x_b", Value: telemetry.BoolValue(true)},
			{Metric: "odd name,x_i", Value: telemetry.IntValue(-5)},
			{Metric: "odd name,x_s", Value: telemetry.TextValue("a \"b\" \\ \n c")},
		},
		Labels: telemetry.Labels{{Name: "a=b", Value: "c,d"}},
	}, got.Readings[1])
}
