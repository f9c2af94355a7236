package sql

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// MaxText is the longest query in bytes (Azure Cosmos DB docs, concepts-limits: 512 KB).
const MaxText = 512 << 10

// maxDepth bounds the nesting of parentheses: the parser recurses.
const maxDepth = 64

// Parse parses a query. Its errors are *Error.
func Parse(text string) (*Query, error) { return parse(text, nil) }

func parse(text string, computed Computed) (*Query, error) {
	if len(text) > MaxText {
		return nil, &Error{Reason: "the query is longer than " + strconv.Itoa(MaxText) + " bytes"}
	}
	if !utf8.ValidString(text) {
		return nil, &Error{Reason: "the query is not UTF-8"}
	}
	if err := checkDepth(text); err != nil {
		return nil, err
	}
	s, err := parser.ParseString("", text)
	if err != nil {
		return nil, syntaxError(err)
	}
	q, err := compile(s, computed)
	if err != nil {
		return nil, err
	}
	q.sent = text
	return q, nil
}

// checkDepth refuses nesting that the recursive parser should not be given.
func checkDepth(text string) error {
	depth := 0
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		ch := text[i]
		switch {
		case quote != 0 && ch == '\\':
			i++
		case quote != 0:
			if ch == quote {
				quote = 0
			}
		case ch == '"' || ch == '\'':
			quote = ch
		case strings.HasPrefix(text[i:], "--"):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				return nil
			}
			i += end
		case ch == '(' || ch == '[' || ch == '{':
			depth++
		case ch == ')' || ch == ']' || ch == '}':
			depth--
		}
		if depth > maxDepth {
			line := 1 + strings.Count(text[:i], "\n")
			column := 1 + utf8.RuneCountInString(text[strings.LastIndexByte(text[:i], '\n')+1:i])
			return &Error{
				Line: line, Column: column, Reason: "expressions are nested more than " + strconv.Itoa(maxDepth) + " deep",
			}
		}
	}
	return nil
}

// syntaxError names the token at which parsing ended. A token that begins a construct of the language
// which this dialect lacks is called that.
func syntaxError(err error) error {
	var unexpected *participle.UnexpectedTokenError
	if errors.As(err, &unexpected) {
		t := unexpected.Unexpected
		e := at(t.Pos, "")
		e.End = e.Start + max(1, len(t.Value))
		word := strings.ToUpper(t.Value)
		switch {
		case t.Type == lexer.EOF:
			e.Reason = "the query ends too early"
		case constructs[word] != "":
			e.Reason = constructs[word] + " is not supported"
		default:
			e.Reason = "syntax error near " + strconv.Quote(t.Value)
		}
		return e
	}
	var other participle.Error
	if errors.As(err, &other) {
		return at(other.Position(), other.Message())
	}
	return &Error{Reason: err.Error()}
}

// constructs are what the language has and this dialect lacks, by the token they begin with.
var constructs = map[string]string{
	"CASE": "CASE", "CAST": "CAST", "CONVERT": "CONVERT", "CROSS": "CROSS",
	"FULLTEXTSCORE": "ORDER BY RANK", "HAVING": "HAVING", "RRF": "ORDER BY RANK",
	"INNER": "INNER JOIN", "INSERT": "INSERT", "OUTER": "OUTER JOIN", "OVER": "OVER", "SELECT": "a subquery",
	"UDF":    "a user-defined function",
	"UPDATE": "UPDATE", "WITH": "WITH",
	"?": "the operator ?", "??": "the operator ??", "||": "the operator ||", "|": "the operator |",
	"&": "the operator &", "^": "the operator ^", "~": "the operator ~",
	"<<": "the operator <<", ">>": "the operator >>", ">>>": "the operator >>>",
}
