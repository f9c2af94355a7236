package sql

import (
	"slices"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

// printed returns a part of a query as plans quote it: the text as it was sent, but for comments, white space and the
// case of key words.
func printed(text string) string {
	lex, err := tokens.LexString("", text)
	if err != nil {
		return text
	}
	all, err := lexer.ConsumeAll(lex)
	if err != nil {
		return text
	}
	kinds := lexer.SymbolsByRune(tokens)
	out := strings.Builder{}
	last, lastKind, tight := "", "", true // tight: no space between the last token and the next
	for _, t := range all {
		kind, word := kinds[t.Type], t.Value
		switch {
		case kind == "Space" || t.EOF():
			continue
		case kind == "Keyword":
			word = strings.ToUpper(word)
			if _, ok := constants[word]; ok {
				word = strings.ToLower(word)
			}
		}
		operand := lastKind == "Ident" || strings.HasSuffix(last, ")") || strings.HasSuffix(last, "]")
		opens := (word == "(" && kind == "Symbol" || word == "[") && (operand || last == "ARRAY" || last == "EXISTS")
		if !tight && !opens && !strings.Contains(",.:)]}", word) {
			out.WriteByte(' ')
		}
		out.WriteString(word)
		sign := (word == "-" || word == "+") && !operand && !slices.Contains([]string{"Number", "String", "Param"}, lastKind)
		tight = sign || kind == "Symbol" && strings.Contains("([{.", word)
		last, lastKind = word, kind
	}
	return out.String()
}

func (o *ordered) descending() bool { return strings.EqualFold(o.Dir, "DESC") }
