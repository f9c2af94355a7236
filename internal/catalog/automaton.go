package catalog

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// automaton is an RE2 expression for all of a text, made for looking at many: a table with a row for each set of places
// in the expression that a text can have come to, so that a byte of a text is one look into it. It knows ASCII.
type automaton struct {
	class   [utf8.RuneSelf]uint8 // of each byte: bytes of a class are alike to the expression
	classes int
	next    []uint16 // by row times classes, and class: times classes, too. Row 0 matches no more.
	accepts []bool   // by row: when the text ends here
}

// Bounds of an automaton. An expression that needs more is looked for as usual.
const (
	maxInstructions = 2000
	maxRows         = 500
	maxTable        = 1 << 14
)

// newAutomaton makes one, or returns nil if the expression needs too large a one, or more than a look at each byte.
func newAutomaton(expression string) *automaton {
	re, err := syntax.Parse(expression, syntax.Perl|syntax.DotNL)
	if err != nil {
		return nil
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil || len(prog.Inst) > maxInstructions {
		return nil
	}
	for i := range prog.Inst {
		if in := &prog.Inst[i]; in.Op == syntax.InstEmptyWidth &&
			syntax.EmptyOp(in.Arg)&^(syntax.EmptyBeginText|syntax.EmptyEndText) != 0 {
			return nil
		}
	}
	b := &automatonBuilder{prog: prog, rows: make(map[string]uint16), seen: make([]int, len(prog.Inst))}
	b.classify()
	b.row(nil)
	start := b.row(b.closure([]uint32{uint32(prog.Start)}, syntax.EmptyBeginText))
	for at := 0; at < len(b.places); at++ {
		for class := range b.classes {
			to := b.row(b.step(b.places[at], b.example[class]))
			if b.next = append(b.next, to*uint16(b.classes)); len(b.places) > maxRows ||
				len(b.places)*b.classes >= maxTable {
				return nil
			}
		}
	}
	// Texts begin in row 1, which is that of the start unless that is row 0.
	if start == 0 {
		return nil
	}
	return &b.automaton
}

// match reports whether a text matches, unless that can't be told here.
func (a *automaton) match(s string) (matches, certain bool) {
	if s == "" {
		return false, false
	}
	row := a.classes
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			return false, false
		}
		if row = int(a.next[row+int(a.class[c])]); row == 0 {
			return false, true
		}
	}
	return a.accepts[row/a.classes], true
}

// automatonBuilder makes the rows.
type automatonBuilder struct {
	automaton
	prog    *syntax.Prog
	example []rune // of each class
	places  [][]uint32
	rows    map[string]uint16 // by places
	seen    []int             // in which round each place was come to last
	round   int
}

// classify puts bytes that no instruction tells apart into one class.
func (b *automatonBuilder) classify() {
	seen := make(map[string]uint8)
	for r := range rune(utf8.RuneSelf) {
		var sign []byte
		for i := range b.prog.Inst {
			if in := &b.prog.Inst[i]; takes(in) {
				bit := byte(0)
				if in.MatchRune(r) {
					bit = 1
				}
				sign = append(sign, bit)
			}
		}
		class, ok := seen[string(sign)]
		if !ok {
			class = uint8(len(seen))
			seen[string(sign)] = class
			b.example = append(b.example, r)
		}
		b.class[r] = class
	}
	b.classes = len(seen)
}

// takes reports whether an instruction takes a character.
func takes(in *syntax.Inst) bool {
	switch in.Op {
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return false
}

// closure is the places that can be come to without a character, where some conditions hold, in order. Those that wait
// for the end of the text stay among them.
func (b *automatonBuilder) closure(from []uint32, holds syntax.EmptyOp) (out []uint32) {
	b.round++
	for len(from) > 0 {
		pc := from[len(from)-1]
		from = from[:len(from)-1]
		if b.seen[pc] == b.round {
			continue
		}
		b.seen[pc] = b.round
		switch in := &b.prog.Inst[pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			from = append(from, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			from = append(from, in.Out)
		case syntax.InstEmptyWidth:
			switch missing := syntax.EmptyOp(in.Arg) &^ holds; missing {
			case 0:
				from = append(from, in.Out)
			case syntax.EmptyEndText:
				out = append(out, pc)
			}
		case syntax.InstFail:
		default:
			out = append(out, pc)
		}
	}
	slices.Sort(out)
	return out
}

// step is where a character leads.
func (b *automatonBuilder) step(places []uint32, r rune) []uint32 {
	var to []uint32
	for _, pc := range places {
		if in := &b.prog.Inst[pc]; takes(in) && in.MatchRune(r) {
			to = append(to, in.Out)
		}
	}
	return b.closure(to, 0)
}

// row is the number of a set of places, which gets one if it has none.
func (b *automatonBuilder) row(places []uint32) uint16 {
	var key []byte
	for _, pc := range places {
		key = binary.AppendUvarint(key, uint64(pc))
	}
	if n, ok := b.rows[string(key)]; ok {
		return n
	}
	n := uint16(len(b.places))
	b.rows[string(key)] = n
	b.places = append(b.places, places)
	b.accepts = append(b.accepts, slices.ContainsFunc(b.closure(slices.Clone(places), syntax.EmptyEndText),
		func(pc uint32) bool { return b.prog.Inst[pc].Op == syntax.InstMatch }))
	return n
}
