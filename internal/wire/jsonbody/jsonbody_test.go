package jsonbody_test

import (
	"strings"
	"testing"

	"binnacle/internal/wire/jsonbody"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	type body struct {
		Text string
		Any  any
	}
	for text, fails := range map[string]bool{
		`{"text":"x"}`: false, "{\"text\":\"x\"} \r\n\t": false, `{"text":"x"}}`: true, `{"text":"x"}]`: true,
		`{"text":"x"}{}`: true, `{"text":"x"} 1`: true, `{"text":"x"},`: true, `{"other":1}`: true, "": true, `{"text"`: true,
	} {
		var into body
		err := jsonbody.Read(strings.NewReader(text), &into)
		require.Equal(t, fails, err != nil, text)
	}
	var into body
	require.NoError(t, jsonbody.Read(strings.NewReader(`{"any":9007199254740993}`), &into))
	require.EqualValues(t, "9007199254740993", into.Any, "no number is rounded")
}
