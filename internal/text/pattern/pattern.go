// Package pattern bounds what regular expressions take that callers send, before they are compiled.
package pattern

// MaxInstructions bounds the instructions, of some 40 bytes, of all regular expressions of a request.
const MaxInstructions = 1 << 20

// What a regular expression takes at least, and a class of Unicode, in instructions; and how often it repeats a part at
// most.
const (
	patternInstructions = 32
	classInstructions   = 128
	maxRepeats          = 1000
)

// Instructions returns how many instructions a text takes at most as a regular expression. It can repeat a part up to a
// thousand times, in all repeats within each other.
func Instructions(text string) int {
	repeats, n := 1, len(text)
	for i := range len(text) {
		switch {
		case text[i] == '{':
			repeats = min(repeats*greatestRepeat(text[i+1:]), maxRepeats)
		case text[i] == 'p' || text[i] == 'P':
			if i > 0 && text[i-1] == '\\' {
				n += classInstructions
			}
		}
	}
	return patternInstructions + n*repeats
}

// greatestRepeat returns the greater number of {n}, {n,} or {n,m}, from behind the brace on; 1 for none.
func greatestRepeat(text string) int {
	most, n := 1, 0
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= '0' && c <= '9':
			n = min(10*n+int(c-'0'), maxRepeats)
		case c == ',' || c == '}':
			most, n = max(most, n), 0
			if c == '}' {
				return most
			}
		default:
			return 1
		}
	}
	return 1
}
