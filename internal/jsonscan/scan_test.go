package jsonscan_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"binnacle/internal/jsonscan"

	"github.com/stretchr/testify/require"
)

// valid reports whether a scanner takes text for one JSON value.
func valid(text []byte) bool {
	var s jsonscan.Scanner
	s.Reset(text)
	return s.Skip(0) == nil && s.End()
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
