package sql

import (
	"regexp"
	"slices"
	"strings"
)

// matches is LIKE: % is any text, _ any character, [a-z] and [^a-z] one of a set, and what follows the
// escape character is itself. It minds case.
type matches struct {
	arg, pattern node
	escape       rune // -1 for none
}

// liked is a pattern of LIKE that was used last: most are the same for every item.
type liked struct {
	text   string
	escape rune
	// compiled is the pattern as a regular expression; nil before the first use.
	compiled *regexp.Regexp
}

func (n matches) eval(e *env) Value {
	s, p := n.arg.eval(e), n.pattern.eval(e)
	if s.kind != String || p.kind != String {
		return Value{}
	}
	if l := &e.liked; l.compiled == nil || l.escape != n.escape || l.text != string(p.str) {
		*l = liked{string(p.str), n.escape, likePattern(p.str, n.escape)}
	}
	return BoolValue(e.liked.compiled.Match(s.str))
}

func (n matches) children() []node { return []node{n.arg, n.pattern} }

// likePattern returns a pattern of LIKE as a regular expression. A set that has a range without characters, such as
// [z-a], has none.
func likePattern(p []byte, escape rune) *regexp.Regexp {
	text := strings.Builder{}
	text.WriteString(`(?s)\A`)
	runes := []rune(string(p))
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case r == escape && i+1 < len(runes):
			i++
			text.WriteString(regexp.QuoteMeta(string(runes[i])))
		case r == '%':
			text.WriteString(`.*`)
		case r == '_':
			text.WriteByte('.')
		case r == '[':
			set, used := likeSet(runes[i+1:])
			text.WriteString(set)
			i += used
		default:
			text.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	text.WriteString(`\z`)
	out, err := regexp.Compile(text.String())
	if err != nil {
		return noText
	}
	return out
}

// noText matches nothing.
var noText = regexp.MustCompile(`\z.`)

// likeSet returns a set as a class of characters, given what follows its bracket, and how much of that it takes. A
// bracket that does not close is itself.
func likeSet(runes []rune) (class string, used int) {
	from, open := 0, `[`
	if len(runes) > 0 && runes[0] == '^' {
		from, open = 1, `[^`
	}
	n := slices.Index(runes[min(from+1, len(runes)):], ']')
	if n < 0 {
		return `\[`, 0
	}
	end := from + 1 + n
	quote := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`)
	return open + quote.Replace(string(runes[from:end])) + `]`, end + 1
}
