package architecture_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"strings"
	"unicode/utf8"
)

// MaxColumns is the longest line, with a tab as one column. Only raw strings, and so tags, may be longer.
const MaxColumns = 120

// LongLines returns the lines of a Go source that are too long, as name:line.
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

// rawStrings returns the numbers of the lines, from 1, that contain a part of a raw string.
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
