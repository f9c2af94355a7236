package catalog_test

import (
	"fmt"
	"regexp"
	"testing"

	"binnacle/internal/catalog"

	"github.com/stretchr/testify/require"
)

var expressions = []string{
	"truck-0000.*", ".*7[0-9]{2}1", ".*AB.*", "A[0-9]+B.*", "", "a|b", "a?",
	"(?i)straße|k.*", "[^a-z]+", "a$", "^a", "$^", "(^a|b$)+",
	"a.b", "(?-s)a.b", "(?-s:.)*", `\d\w+`, `a\b`, "(?m)^a$", `\x00.`, "(a*)*b", "x{3,5}", ".{0,20}a.{10}", "é|.*e", "[[:alpha:]]*",
	"(?U)a+b", "a||b", `\pL+`, "a^", "$a", "(a|$)b?", `\Aab\z`, "[a-c&&d]", "(?i)K", "ſ", "(?i)s+",
}

// What an automaton is certain of is what the expression says.
func FuzzAutomaton(f *testing.F) {
	texts := []string{"", "a", "b", "truck-00001", "dev-7001", "7121", "A1B", "xABy", "a\nb",
		"ab", "aé", "K", "ſ", "s", "aa", "xxxx",
		"\x00a", "\xff", "xa0123456789", "a$"}
	for i, e := range expressions {
		for k := range 4 {
			f.Add(e, texts[(4*i+k)%len(texts)])
		}
	}
	f.Fuzz(func(t *testing.T, expression, text string) {
		if len(expression) > 100 {
			return
		}
		if _, err := regexp.Compile(expression); err != nil {
			return
		}
		re := regexp.MustCompile("^(?s:" + expression + ")$")
		if matches, certain := catalog.Automaton(expression, text); certain {
			require.Equal(t, re.MatchString(text), matches, "%q in %q", expression, text)
		}
	})
}

// It is certain of what is asked for usually, and not made where it would become too large.
func TestAutomatonKnows(t *testing.T) {
	for _, e := range []string{"truck-0000.*", ".*7[0-9]{2}1", "(?i)a|b", "^a$", ".+"} {
		_, certain := catalog.Automaton(e, "truck-0001")
		require.True(t, certain, e)
	}
	for _, e := range []string{"é", `a\b`} {
		_, certain := catalog.Automaton(e, "é")
		require.False(t, certain, e)
	}
	_, certain := catalog.Automaton(".*a.{12}", "a")
	require.False(t, certain)
}

// Of many devices the same ones match as of few, one at a time.
func TestManyDevicesMatchAsFewDo(t *testing.T) {
	x := catalog.NewIndex()
	var entries []catalog.Entry
	for i := range 5000 {
		e := catalog.Entry{Device: fmt.Sprintf("truck-%04d", i), First: 1, Last: 2}
		if i%3 > 0 {
			e.Tags = []catalog.Tag{{Name: "vin", Value: fmt.Sprintf("é%x", i*i)[2*(i%2):], Told: 1}}
		}
		entries = append(entries, e)
	}
	x.Add(catalog.Page{Entries: entries})
	for _, expression := range []string{"truck-.*7", ".*a.*", "[^a-f]*", "", ".+", "é.*|[0-9]+", `\b.*`} {
		re := regexp.MustCompile("^(?s:" + expression + ")$")
		for _, of := range []catalog.Property{catalog.OfDevice, catalog.OfTag, catalog.OfName} {
			for _, not := range []bool{false, true} {
				m := catalog.Matcher{Of: of, Name: "vin", Expression: expression, Not: not,
					Match: func(s string) bool { return re.MatchString(s) != not }}
				var want []string
				for _, e := range entries {
					value := e.Device
					if of != catalog.OfDevice {
						value = e.TagLabels().Map()["vin"]
					}
					if m.Match(value) {
						want = append(want, e.Device)
					}
				}
				require.ElementsMatch(t, want, x.Select([]catalog.Matcher{m}, 0, x.Blocks()).Devices(), "%q %v %d",
					expression, not, of)
			}
		}
	}
}
