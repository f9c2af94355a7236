package jsontext_test

import (
	"encoding/json"
	"testing"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsontext"

	"github.com/stretchr/testify/require"
)

func TestAppendString(t *testing.T) {
	for s, want := range map[string]string{
		"":                   `""`,
		"truck-0042":         `"truck-0042"`,
		`a"b\c`:              `"a\"b\\c"`,
		"\x00\n\t\x1f\x7f":   `"\u0000\u000a\u0009\u001f\u007f"`,
		"<a&b>":              `"<a&b>"`,
		"Grüße 😀 \u2028":     `"Grüße 😀 ` + "\u2028" + `"`,
		"end of a string \"": `"end of a string \""`,
		"a\xffb\xc3\"":       "\"a\uFFFDb\uFFFD\\\"\"",
	} {
		require.Equal(t, "x"+want, string(jsontext.AppendString([]byte("x"), s)))
		require.Equal(t, len(want), jsontext.Len(s))
	}
}

func TestAppendLabels(t *testing.T) {
	require.Equal(t, `{}`, string(jsontext.AppendLabels(nil, nil)))
	labels := telemetry.Labels{{Name: "axis", Value: "x"}, {Name: `a"`, Value: "\n"}}
	require.Equal(t, `{"axis":"x","a\"":"\u000a"}`, string(jsontext.AppendLabels(nil, labels)))
}

// encoding/json reads back what was written.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", "\xc3(\xff", "\"\\\x00\x7f", "😀\u2029"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var again string
		text := jsontext.AppendString(nil, s)
		require.NoError(t, json.Unmarshal(text, &again))
		require.Len(t, text, jsontext.Len(s))
		require.Equal(t, string([]rune(s)), again) // a byte that is no UTF-8 is U+FFFD, each
	})
}
