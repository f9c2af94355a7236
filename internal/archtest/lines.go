package archtest

import (
	"fmt"
	"go/scanner"
	"go/token"
	"strings"
	"unicode/utf8"
)

// MaxColumns is where a line ends at the latest, a tab being one column. Only what can't be broken may be longer: a
// raw string, and so a tag.
const MaxColumns = 120

// LongLines are the lines of a Go source that are too long, as name:line.
func LongLines(name, source string) []string {
	lines := strings.Split(source, "\n")
	raw := rawStrings(source)
	var faults []string
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > MaxColumns && !raw[i+1] {
			faults = append(faults, fmt.Sprintf("%s:%d: %d columns", name, i+1, n))
		}
	}
	return faults
}

// rawStrings are the lines, from 1, that a raw string has a part of.
func rawStrings(source string) map[int]bool {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, []byte(source), nil, 0)
	lines := make(map[int]bool)
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return lines
		}
		if kind == token.STRING && strings.HasPrefix(text, "`") {
			first := file.Line(at)
			for i := range strings.Count(text, "\n") + 1 {
				lines[first+i] = true
			}
		}
	}
}
