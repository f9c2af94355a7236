package prom

import (
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"
)

// Bounds of what a request asks. The parser and the engine call themselves once for each bracket, sign and operator: a
// stack that overflows ends the process, and some of their work grows with the square of the depth, where no timeout
// is checked. So texts are measured before they are parsed.
const (
	maxTextBytes   = 256 << 10 // for a query, or for all selectors of a request together
	maxNesting     = 200       // open brackets and signs in a row
	maxOperators   = 500       // each is one level deeper: a + b + c is (a + b) + c
	maxFormatBytes = 10 << 10  // for format_query: formatting takes the square of the depth for each byte
	maxPatterns    = 1 << 20   // instructions of all regular expressions, of some 40 bytes
)

// checkTexts returns an error if the query or the selectors of a request pass a bound.
func checkTexts(form map[string][]string) error {
	for _, name := range []string{"query", "match[]"} {
		size := 0
		for _, text := range form[name] {
			size += len(text)
		}
		if size > maxTextBytes {
			return badRequest("invalid parameter %q: it has %d bytes; at most %d are allowed", name, size, maxTextBytes)
		}
		patterns := 0
		for _, text := range form[name] {
			if err := checkDepth(name, text, &patterns); err != nil {
				return err
			}
		}
		if patterns > maxPatterns {
			return badRequest("invalid parameter %q: its texts and regular expressions may take %d instructions; at most %d "+
				"are allowed", name, patterns, maxPatterns)
		}
	}
	return nil
}

// checkDepth returns an error if the tree of an expression would be too deep. Brackets and signs in strings and
// comments do not count, nor operators in braces. It adds what regular expressions may take.
func checkDepth(name, text string, patterns *int) error {
	var brackets, signs, operators int
	braces := false
	lexer := parser.Lex(text)
	for {
		var item parser.Item
		lexer.NextItem(&item)
		switch item.Typ {
		case parser.EOF, parser.ERROR: // the parser reads no further either
			return nil
		case parser.COMMENT:
			continue
		case parser.STRING:
			if text, err := strutil.Unquote(item.Val); err == nil { // else the parser refuses it
				*patterns += instructions(text)
			}
		case parser.LEFT_PAREN, parser.LEFT_BRACE, parser.LEFT_BRACKET:
			brackets++
		case parser.RIGHT_PAREN, parser.RIGHT_BRACE, parser.RIGHT_BRACKET:
			brackets--
		}
		switch item.Typ {
		case parser.LEFT_BRACE:
			braces = true
		case parser.RIGHT_BRACE:
			braces = false
		case parser.ADD, parser.SUB:
			signs++
		default:
			signs = 0
		}
		// A subquery is a level around what its bracket follows.
		if item.Typ == parser.LEFT_BRACKET || item.Typ.IsOperator() && !braces {
			operators++
		}
		switch {
		case brackets+signs > maxNesting:
			return badRequest("invalid parameter %q: brackets and signs nest deeper than %d levels at byte %d", name, maxNesting,
				item.Pos)
		case operators > maxOperators:
			return badRequest("invalid parameter %q: it has more than %d operators", name, maxOperators)
		}
	}
}

// What a regular expression takes at least, and a class of Unicode, in instructions; and how often it repeats a part at
// most.
const (
	patternInstructions = 32
	classInstructions   = 128
	maxRepeats          = 1000
)

// instructions bounds those of a text as a regular expression. It can repeat a part up to a thousand times, in all
// repeats within each other.
func instructions(text string) int {
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
