package jsonscan_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"binnacle/internal/wire/jsonscan"

	"github.com/stretchr/testify/require"
)

// valid reports whether a scanner takes text for one JSON value.
func valid(text []byte) bool {
	var s jsonscan.Scanner
	s.Reset(text)
	return s.Skip() == nil && s.End()
}

// encoding/json, which replaces invalid UTF-8 and lone surrogates, is the measure of everything else.
func FuzzSkip(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-2.5e+7,0.1],"b":{"c":null,"d":true},"e":"\u00e9\"\\","f":false}`, ` [ ] `, `"\ud83d\ude00"`, `1e5`, `-0`,
		`01`, `"a`,
		"\"12345678\x1f\"", `"1234567\"890"`, `{"a":1,}`, `[1 2]`, `nul`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !valid(text) && json.Valid(text) {
			require.Contains(t, string(text), `\u`, "only half a surrogate pair is refused")
			return
		}
		if valid(text) {
			require.True(t, json.Valid(text), "%q", text)
		}
	})
}

// Strings are read eight bytes at a time where nothing in them ends or escapes: what does is found at every place.
func TestStringsOfEveryLength(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range 40 {
		for at := range n + 1 {
			for _, odd := range []string{"", `"`, `\`, `\n`, `\"`, "\x00", "\x1f", " ", "é", "\x7f", "\u2028", "!", "[", "]"} {
				plain := make([]byte, n)
				for i := range plain {
					plain[i] = byte('#' + r.IntN(50))
				}
				text := `"` + strings.ReplaceAll(string(plain[:at]), `\`, "_") + odd + strings.ReplaceAll(string(plain[at:]), `\`, "_") + `"`
				require.Equal(t, json.Valid([]byte(text)), valid([]byte(text)), "%q", text)
				if !valid([]byte(text)) {
					continue
				}
				var want string
				require.NoError(t, json.Unmarshal([]byte(text), &want))
				var s jsonscan.Scanner
				s.Reset([]byte(text))
				got, err := s.Str()
				require.NoError(t, err)
				require.Equal(t, want, string(got), "%q", text)
			}
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	deep := []byte(strings.Repeat("[", 1<<20))
	require.False(t, valid(deep))
	require.True(t, valid([]byte(strings.Repeat("[", 90)+strings.Repeat("]", 90))))
}

// Of what is JSON, a value's text is what encoding/json takes for it, whatever stands in its strings.
func FuzzValue(f *testing.F) {
	for _, text := range []string{
		`[{"a":"}\"]\\","b":[1,{"c":"[{"}]}, {"\\":"\\\\\"{"} ,"x\"]",-1.5e3,true,null,[],{},[[]]]`, `[""]`, `[]`, ` [ 1 , 2 ] `,
		`[{"a":"\\"}]`, `["\\\\\\\""]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want []json.RawMessage
		known := json.Unmarshal(text, &want) == nil && want != nil
		var got []json.RawMessage
		var s jsonscan.Scanner
		s.Reset(text)
		err := s.Array(func(int) error {
			v, err := s.Value()
			got = append(got, v)
			return err
		})
		if !known {
			return // it has come to an end, and what it has found is the caller's to check
		}
		if strings.Contains(string(text), `\u`) && err != nil {
			return // half a surrogate pair
		}
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, string(want[i]), string(got[i]))
		}
	})
}

// What breaks off anywhere is no value.
func TestTruncatedValues(t *testing.T) {
	const text = `{"a":["}",{"b":"\\\"]"}],"c":1}`
	for n := range len(text) {
		var s jsonscan.Scanner
		s.Reset([]byte(text[:n]))
		_, err := s.Value()
		require.Error(t, err, "%q", text[:n])
	}
}
