package sql

import "unicode/utf8"

// matches is LIKE: % is any text, _ any character, [a-z] and [^a-z] one of a set, and what follows the
// escape character is itself. It minds case.
type matches struct {
	arg, pattern node
	escape       rune // -1 for none
}

func (n matches) eval(e *env) Value {
	s, p := n.arg.eval(e), n.pattern.eval(e)
	if s.kind != String || p.kind != String {
		return Value{}
	}
	return BoolValue(matchPattern(compilePattern(p.str, n.escape), s.str))
}

func (n matches) children() []node { return []node{n.arg, n.pattern} }

// wild is one place of a pattern.
type wild struct {
	any    bool // %: any number of characters
	one    bool // _
	set    [][2]rune
	negate bool
	char   rune // without any of these
}

func compilePattern(p []byte, escape rune) []wild {
	runes := []rune(string(p))
	var out []wild
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case r == escape && i+1 < len(runes):
			i++
			out = append(out, wild{char: runes[i]})
		case r == '%':
			if len(out) == 0 || !out[len(out)-1].any {
				out = append(out, wild{any: true})
			}
		case r == '_':
			out = append(out, wild{one: true})
		case r == '[':
			w, used := compileSet(runes[i:])
			out = append(out, w)
			i += used
		default:
			out = append(out, wild{char: r})
		}
	}
	return out
}

// compileSet reads a set from its bracket on, and gives how many characters follow that. A bracket
// that does not close is itself.
func compileSet(runes []rune) (wild, int) {
	i := 1
	w := wild{}
	if i < len(runes) && runes[i] == '^' {
		w.negate = true
		i++
	}
	for ; i < len(runes); i++ {
		switch {
		case runes[i] == ']' && len(w.set) > 0:
			return w, i
		case i+2 < len(runes) && runes[i+1] == '-' && runes[i+2] != ']':
			w.set = append(w.set, [2]rune{runes[i], runes[i+2]})
			i += 2
		default:
			w.set = append(w.set, [2]rune{runes[i], runes[i]})
		}
	}
	return wild{char: '['}, 0
}

func (w wild) matches(r rune) bool {
	switch {
	case w.one:
		return true
	case w.set == nil:
		return r == w.char
	}
	for _, s := range w.set {
		if r >= s[0] && r <= s[1] {
			return !w.negate
		}
	}
	return w.negate
}

// matchPattern goes back to the last % only, which is enough: time is at most the product of lengths.
func matchPattern(p []wild, s []byte) bool {
	at, star, retry := 0, -1, 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRune(s[i:])
		switch {
		case at < len(p) && p[at].any:
			star, retry = at, i
			at++
		case at < len(p) && p[at].matches(r):
			at++
			i += n
		case star >= 0:
			_, n = utf8.DecodeRune(s[retry:])
			retry += n
			at, i = star+1, retry
		default:
			return false
		}
	}
	for at < len(p) && p[at].any {
		at++
	}
	return at == len(p)
}
