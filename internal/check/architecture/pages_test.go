package architecture_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// MaxPageWords is how many words the pages of docs may have together, reports of examples excepted.
const MaxPageWords = 60000

// MaxProseColumns is the longest line of prose in a page. Tables and code may be longer, and targets of links do not
// count.
const MaxProseColumns = 100

// The pages of docs stay few enough to read, and in the four folders of docs.
func TestWordsOfPages(t *testing.T) {
	place := regexp.MustCompile(`^docs/((start|operate|reference|internals)/.*|ARCHITECTURE\.md|README\.md)$`)
	words := 0
	for _, page := range tracked(t) {
		if !strings.HasPrefix(page, "docs/") || !strings.HasSuffix(page, ".md") || strings.Contains(page, "/reports/") {
			continue
		}
		require.Regexp(t, place, page)
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		words += len(strings.Fields(string(text)))
	}
	t.Logf("%d words", words)
	require.LessOrEqual(t, words, MaxPageWords)
}

// Pages for users name no tests, but in commands that run them.
func TestPagesForUsersNameNoTests(t *testing.T) {
	name := regexp.MustCompile(`(.)\b(Test[A-Z]\w+)`)
	for _, page := range tracked(t) {
		if !regexp.MustCompile(`^(README|docs/(start|operate|reference)/.*)\.md$`).MatchString(page) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			require.Equal(t, "^", m[1], "%s names %s", page, m[2])
		}
	}
}

func TestProseOfPagesIsWrapped(t *testing.T) {
	for text, long := range map[string]bool{
		strings.Repeat("word ", 25):                         true,
		"| " + strings.Repeat("cell ", 25) + "|":            false,
		"```\n" + strings.Repeat("code ", 25) + "\n```":     false,
		"- [a link](" + strings.Repeat("x", 100) + "), end": false,
		"end [a\nlink](" + strings.Repeat("x", 100) + ")":   false,
	} {
		require.Equal(t, long, len(longProse("page", text)) > 0, text)
	}
	notOurs := regexp.MustCompile(`/(reports|testdata|vendor)/`) // written by the command, or by others
	var faults []string
	for _, page := range tracked(t) {
		if !strings.HasSuffix(page, ".md") || page == "CHANGELOG.md" || notOurs.MatchString(page) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		faults = append(faults, longProse(page, string(text))...)
	}
	require.Empty(t, faults)
}

// longProse returns the lines of a page's prose that are too long, as name:line.
func longProse(name, page string) (faults []string) {
	target := regexp.MustCompile(`\]\([^)]*\)`)
	command := regexp.MustCompile("^`[^`]*`[.,:;]?$")
	code := false
	for i, line := range strings.Split(page, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			code = !code
		}
		if code || strings.HasPrefix(trimmed, "|") || command.MatchString(trimmed) {
			continue
		}
		if n := utf8.RuneCountInString(target.ReplaceAllString(strings.TrimRight(line, " "), "]")); n > MaxProseColumns {
			faults = append(faults, fmt.Sprintf("%s:%d: %d columns", name, i+1, n))
		}
	}
	return faults
}
