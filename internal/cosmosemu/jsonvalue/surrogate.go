package jsonvalue

import (
	"bytes"
	"strconv"
)

// Repair returns JSON in which every escaped surrogate that stands alone is U+FFFD.
func Repair(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\ud`)) && !bytes.Contains(text, []byte(`\uD`)) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			out = append(out, text[i])
			i++
			continue
		}
		n := 2
		switch high, low := escape(text[i:]), escape(text[min(i+6, len(text)):]); {
		case high >= 0xD800 && high < 0xDC00 && low >= 0xDC00 && low < 0xE000:
			n = 12
		case high >= 0xD800 && high < 0xE000:
			out = append(out, "\uFFFD"...)
			i += 6
			continue
		}
		n = min(n, len(text)-i)
		out = append(out, text[i:i+n]...)
		i += n
	}
	return out
}

// escape returns the code unit of an escape \uXXXX that text begins with, or -1.
func escape(text []byte) int {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return int(n)
}
