package sql

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
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
	if unexpected, ok := errors.AsType[*participle.UnexpectedTokenError](err); ok {
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
	if other, ok := errors.AsType[participle.Error](err); ok {
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

// The bounds of a Cache. SDKs that read many items at once send texts of up to 1,000 conditions, which differ in
// nothing but their number, for page after page.
const (
	maxCached      = 512
	maxCachedText  = 128 << 10 // bytes of one text
	maxCachedTexts = 1 << 20   // bytes of all
)

// Cache keeps parsed queries by their text. It is safe for concurrent use; its zero value is ready.
type Cache struct {
	// Computed lists the computed properties that queries may read besides the items' own. They do not change.
	Computed Computed

	mu      sync.RWMutex
	queries map[string]*Query
	// size is the total length of the cached texts.
	size int
}

// Parse parses a query, and remembers the result. Errors and the longest texts are not kept. A full cache starts over:
// clients use few texts, with parameters.
func (c *Cache) Parse(text string) (*Query, error) {
	c.mu.RLock()
	q := c.queries[text]
	c.mu.RUnlock()
	if q != nil {
		return q, nil
	}
	q, err := parse(text, c.Computed)
	if err != nil || len(text) > maxCachedText {
		return q, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queries == nil || len(c.queries) >= maxCached || c.size+len(text) > maxCachedTexts {
		c.queries, c.size = map[string]*Query{}, 0
	}
	c.queries[text] = q
	c.size += len(text)
	return q, nil
}

// text lifts a test of two strings; a third argument true makes it ignore case.
func text(test func(s, part []byte) bool) func([]Value) Value {
	return func(args []Value) Value {
		if args[0].kind != String || args[1].kind != String {
			return Value{}
		}
		if len(args) == 3 && args[2].True() {
			return BoolValue(test(bytes.ToLower(args[0].str), bytes.ToLower(args[1].str)))
		}
		return BoolValue(test(args[0].str, args[1].str))
	}
}

func onText(f func([]byte) []byte) func([]Value) Value {
	return func(args []Value) Value {
		if args[0].kind != String {
			return Value{}
		}
		return StringValue(f(args[0].str))
	}
}

// length counts characters (code points): the documentation does not say which unit.
func length(args []Value) Value {
	if args[0].kind != String {
		return Value{}
	}
	return NumberValue(float64(utf8.RuneCount(args[0].str)))
}

// fullText tests for a word, or a phrase of words, without regard to case. A word is a run of letters and digits. There
// is no stemming, no stop words and no language.
func fullText(text, phrase []byte) bool {
	want := words(phrase)
	return len(want) > 2 && bytes.Contains(words(text), want)
}

// words returns the words of a text in lower case, with a blank before and behind each.
func words(text []byte) []byte {
	other := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	return slices.Concat([]byte{' '}, bytes.Join(bytes.FieldsFunc(bytes.ToLower(text), other), []byte{' '}), []byte{' '})
}
