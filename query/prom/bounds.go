package prom

import (
	"github.com/prometheus/prometheus/promql/parser"
)

// Bounds of what a request asks. The parser and the engine call themselves once for each bracket, sign and operator: a
// stack that overflows ends the process, and some of their work grows with the square of the depth, where no timeout
// is checked. So texts are measured before they are parsed.
const (
	maxTextBytes   = 256 << 10 // of a query, or of all selectors of a request
	maxNesting     = 200       // open brackets and signs in a row
	maxOperators   = 500       // each is one level deeper: a + b + c is (a + b) + c
	maxFormatBytes = 10 << 10  // of a query to be formatted, which takes the square of the depth for each byte
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
		for _, text := range form[name] {
			if err := checkDepth(name, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDepth returns an error if the tree of an expression would be too deep. Brackets and signs in strings and
// comments do not count, nor operators in braces.
func checkDepth(name, text string) error {
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
