package sql

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"
)

func startsWith(s, part []byte) bool { return bytes.HasPrefix(s, part) }
func endsWith(s, part []byte) bool   { return bytes.HasSuffix(s, part) }
func contains(s, part []byte) bool   { return bytes.Contains(s, part) }
func sameText(s, part []byte) bool   { return bytes.Equal(s, part) }

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

func lower(s []byte) []byte     { return bytes.ToLower(s) }
func upper(s []byte) []byte     { return bytes.ToUpper(s) }
func trim(s []byte) []byte      { return bytes.TrimSpace(s) }
func trimLeft(s []byte) []byte  { return bytes.TrimLeftFunc(s, unicode.IsSpace) }
func trimRight(s []byte) []byte { return bytes.TrimRightFunc(s, unicode.IsSpace) }

func reverse(s []byte) []byte {
	runes := []rune(string(s))
	slices.Reverse(runes)
	return []byte(string(runes))
}

// length counts characters (code points): the documentation does not say which unit.
func length(args []Value) Value {
	if args[0].kind != String {
		return Value{}
	}
	return NumberValue(float64(utf8.RuneCount(args[0].str)))
}

// substring takes a first character, from 0 on, and a number of characters.
func substring(args []Value) Value {
	if args[0].kind != String || args[1].kind != Number || args[2].kind != Number {
		return Value{}
	}
	return slice(args[0].str, args[1].num, args[1].num+args[2].num)
}

func left(args []Value) Value {
	if args[0].kind != String || args[1].kind != Number {
		return Value{}
	}
	return slice(args[0].str, 0, args[1].num)
}

func right(args []Value) Value {
	if args[0].kind != String || args[1].kind != Number {
		return Value{}
	}
	n := float64(utf8.RuneCount(args[0].str))
	return slice(args[0].str, n-max(0, args[1].num), n)
}

// slice cuts a string at characters; what lies outside of it is cut off.
func slice(s []byte, from, to float64) Value {
	runes := []rune(string(s))
	at := func(f float64) int { return int(max(0, min(f, float64(len(runes))))) }
	a, b := at(from), at(to)
	return StringValue([]byte(string(runes[a:max(a, b)])))
}

// indexOf returns the first place of a part, in characters, or -1.
func indexOf(args []Value) Value {
	if args[0].kind != String || args[1].kind != String {
		return Value{}
	}
	from := 0.0
	if len(args) == 3 {
		if args[2].kind != Number {
			return Value{}
		}
		from = max(0, args[2].num)
	}
	rest := slice(args[0].str, from, float64(len(args[0].str))).str
	i := bytes.Index(rest, args[1].str)
	if i < 0 {
		return NumberValue(-1)
	}
	skipped := utf8.RuneCount(args[0].str) - utf8.RuneCount(rest)
	return NumberValue(float64(skipped + utf8.RuneCount(rest[:i])))
}

func replace(args []Value) Value {
	if args[0].kind != String || args[1].kind != String || args[2].kind != String {
		return Value{}
	}
	if len(args[1].str) == 0 {
		return args[0]
	}
	return StringValue(bytes.ReplaceAll(args[0].str, args[1].str, args[2].str))
}

func concatenate(args []Value) Value {
	out := args[0]
	for _, a := range args[1:] {
		out = joined(out, a)
	}
	return out
}

// allWords asks for every argument of a full-text test.
const allWords = -1

// fullText tests for words, or for phrases of them, without regard to case. A word is a run of
// letters and digits. There is no stemming, no stop words and no language.
func fullText(need int) func([]Value) Value {
	return func(args []Value) Value {
		if args[0].kind != String {
			return Value{}
		}
		have := words(args[0].str)
		found := 0
		for _, a := range args[1:] {
			if a.kind != String {
				return Value{}
			}
			if phraseIn(have, words(a.str)) {
				found++
			}
		}
		if need == allWords {
			return BoolValue(found == len(args)-1)
		}
		return BoolValue(found >= need)
	}
}

func words(s []byte) [][]byte {
	return bytes.FieldsFunc(bytes.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func phraseIn(have, phrase [][]byte) bool {
	if len(phrase) == 0 {
		return false
	}
	for i := 0; i+len(phrase) <= len(have); i++ {
		if slices.EqualFunc(have[i:i+len(phrase)], phrase, bytes.Equal) {
			return true
		}
	}
	return false
}
