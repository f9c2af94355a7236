package epk_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"binnacle/sharding/epk"

	"github.com/stretchr/testify/require"
)

// The vectors are those of the public SDKs (azure_data_cosmos, azcosmos, @azure/cosmos), masked as
// routing masks them.
func TestHash(t *testing.T) {
	for _, v := range []struct {
		name string
		in   []epk.Component
		want string
	}{
		{"empty string", []epk.Component{epk.String("")}, "32E9366E637A71B4E710384B2F4970A0"},
		{"partitionKey", []epk.Component{epk.String("partitionKey")}, "013AEFCF77FA271571CF665A58C933F1"},
		{"1024 a", []epk.Component{epk.String(strings.Repeat("a", 1024))}, "332BDF5512AE49615F32C7D98C2DB86C"},
		{"redmond", []epk.Component{epk.String("redmond")}, "22E342F38A486A088463DFF7838A5963"},
		{"customer42", []epk.Component{epk.String("customer42")}, "19819C94CE42A1654CCC8110539D9589"},
		{"accent", []epk.Component{epk.String("é")}, "007199F104E04116EE25AF912CA4889B"},
		{"null", []epk.Component{epk.Null()}, "378867E4430E67857ACE5C908374FE16"},
		{"undefined", []epk.Component{epk.Undefined()}, "11622DAA78F835834610ABE56EFF5CB5"},
		{"true", []epk.Component{epk.Bool(true)}, "0E711127C5B5A8E4726AC6DD306A3E59"},
		{"false", []epk.Component{epk.Bool(false)}, "2FE1BE91E90A3439635E0E9E37361EF2"},
		{"5", []epk.Component{epk.Number(5)}, "19C08621B135968252FB34B4CF66F811"},
		{"-0", []epk.Component{epk.Number(math.Copysign(0, -1))}, "3D018BB1DF3DB27235766E81FD10406E"},
		{"0", []epk.Component{epk.Number(0)}, "155B95BEDAC4B1E9EC1CDC9BB0DDDE58"},
		{"-128", []epk.Component{epk.Number(-128)}, "01DAEDABF913540367FE219B2AD06148"},
		{"max int32", []epk.Component{epk.Number(math.MaxInt32)}, "2D9349D64712AEB5EB1406E2F0BE2725"},
		{"min int64", []epk.Component{epk.Number(math.MinInt64)}, "23D5C6395512BDFEAFADAD15328AD2BB"},
		{"max int64", []epk.Component{epk.Number(math.MaxInt64)}, "2EDB959178DFCCA18983F89384D1629B"},
		{"smallest", []epk.Component{epk.Number(5e-324)}, "0E6CBA63A280927DE485DEF865800139"},
		{"largest", []epk.Component{epk.Number(math.MaxFloat64)}, "31424D996457102634591FF245DBCC4D"},
		{"several", []epk.Component{epk.Number(5), epk.String("redmond"), epk.Bool(true), epk.Null()},
			"3032DECBE2AB1768D8E0AEDEA35881DF"},
	} {
		require.Equal(t, v.want, epk.Hash(v.in...), v.name)
	}
}

func TestMultiHash(t *testing.T) {
	require.Equal(t, "3499FD5198AE0F1EB6B77F6E428D2FF0"+"27A1848BD1102A3B65AFF266874D0FF5"+
		"2CA5ABC953544CF9BD94776DA5E6EA52",
		epk.MultiHash(epk.String("/path1"), epk.String("/path2"), epk.String("/path3")))
	require.Equal(t, "22E342F38A486A088463DFF7838A5963"+"19C08621B135968252FB34B4CF66F811",
		epk.MultiHash(epk.String("redmond"), epk.Number(5)))
	require.Equal(t, "1B6E36CBA1839DF91310617831CA7FAC"+"2674BE86EC7D9E62AD3C60A86E0FFF8B"+
		"3AD7F4E33E4B622AA492DBFA5E3C1B05",
		epk.MultiHash(epk.String("tenant-1"), epk.String("device-1"), epk.String("2026-07")))
	require.Equal(t, "3A5381E1114EB8D3FCC90795045B49B7"+"195644569A78B1E22D200348AF9416CE",
		epk.MultiHash(epk.String("a"), epk.String("b")))
}

func TestCompareWithLengths(t *testing.T) {
	short := "06AB34CFE4E482236BCACBBF50E234AB"
	require.Zero(t, epk.Compare(short, short+strings.Repeat("0", 32)))
	require.Negative(t, epk.Compare(short, short+"01"))
	require.Positive(t, epk.Compare(short+"01", short))
	require.Negative(t, epk.Compare("", short))
	require.Negative(t, epk.Compare(short, epk.Max))
}

// A prefix must reach both ranges of a container that was split inside it.
func TestPrefixSpansASplit(t *testing.T) {
	p := "0DCEB8CE51C6BFE84F4BD9409F69B9BB"
	cut := p + "2164DEBD78C50C850E0C1E3E3F0579ED"
	prefix := epk.Range{Min: p, Max: p + epk.Max}
	require.True(t, prefix.Overlaps(epk.Range{Min: "", Max: cut}))
	require.True(t, prefix.Overlaps(epk.Range{Min: cut, Max: epk.Max}))
	require.False(t, prefix.Overlaps(epk.Range{Min: "", Max: p}))
	require.False(t, prefix.Overlaps(epk.Range{Min: p + "FF", Max: epk.Max}))
}

func TestSplitCoversTheSpaceOnce(t *testing.T) {
	require.Equal(t, []epk.Range{{Min: "", Max: "20000000000000000000000000000000"},
		{Min: "20000000000000000000000000000000", Max: "FF"}}, epk.Split(2))
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 5, 7, 10, 64, 100} {
		ranges := epk.Split(n)
		require.Len(t, ranges, n)
		hits := make([]int, n)
		for range 200 * n {
			key := epk.MultiHash(epk.Number(rnd.Float64()), epk.String("d"))
			in := 0
			for i, r := range ranges {
				if r.Contains(key) {
					in++
					hits[i]++
				}
			}
			require.Equal(t, 1, in, "n=%d key=%s", n, key)
		}
		for i, h := range hits {
			require.InDelta(t, 200, h, 80, "n=%d range %d", n, i)
		}
	}
}
