package jsonvalue

import (
	"bytes"
	"regexp"
)

// escapes are the escapes of a JSON string: a pair of surrogates, a lone surrogate, or any other.
var escapes = regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[dD][89a-fA-F]..|\\.`)

// Repair returns JSON with U+FFFD in place of every lone escaped surrogate.
func Repair(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\ud`)) && !bytes.Contains(text, []byte(`\uD`)) {
		return text
	}
	return escapes.ReplaceAllFunc(text, func(escape []byte) []byte {
		if len(escape) == len(`\ud800`) {
			return []byte("\uFFFD")
		}
		return escape
	})
}
