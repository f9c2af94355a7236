package sql

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"
)

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
