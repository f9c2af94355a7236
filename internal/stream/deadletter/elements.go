package deadletter

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Run is some elements of a record that stand one behind another, both ends inclusive.
type Run struct{ First, Last int }

// Elements are some elements of a record, in runs, from the lowest on.
type Elements []Run

// Overlaps reports whether any is among others.
func (e Elements) Overlaps(others Elements) bool {
	for _, r := range e {
		for _, o := range others {
			if o.First <= r.Last && o.Last >= r.First {
				return true
			}
		}
	}
	return false
}

// Add adds elements that come behind all that are there.
func (e *Elements) Add(r Run) {
	if n := len(*e); n > 0 && (*e)[n-1].Last+1 == r.First {
		(*e)[n-1].Last = r.Last
		return
	}
	*e = append(*e, r)
}

// Count returns how many there are.
func (e Elements) Count() (n int) {
	for _, r := range e {
		n += r.Last - r.First + 1
	}
	return n
}

// Has reports whether an element is among them.
func (e Elements) Has(index int) bool {
	_, found := slices.BinarySearchFunc(e, index, func(r Run, i int) int {
		switch {
		case r.Last < i:
			return -1
		case r.First > i:
			return 1
		}
		return 0
	})
	return found
}

// Split returns the first most elements, and the others.
func (e Elements) Split(most int) (first, rest Elements) {
	for i, r := range e {
		if n := r.Last - r.First + 1; n > most {
			if most > 0 {
				first = append(first, Run{r.First, r.First + most - 1})
			}
			return first, append(Elements{{r.First + most, r.Last}}, e[i+1:]...)
		} else {
			most -= n
		}
		first = append(first, r)
	}
	return first, nil
}

// Without returns the elements that are not among others.
func (e Elements) Without(others Elements) (out Elements) {
	for _, r := range e {
		for _, o := range others {
			if o.Last < r.First || o.First > r.Last {
				continue
			}
			if o.First > r.First {
				out = append(out, Run{r.First, o.First - 1})
			}
			r.First = o.Last + 1
		}
		if r.First <= r.Last {
			out = append(out, r)
		}
	}
	return out
}

// With returns the elements of both lists.
func (e Elements) With(others Elements) (out Elements) {
	all := slices.Concat(e, others)
	slices.SortFunc(all, func(a, b Run) int { return a.First - b.First })
	for _, r := range all {
		if n := len(out); n > 0 && r.First <= out[n-1].Last+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// String returns them as the header has them, such as 0-2,5.
func (e Elements) String() string {
	var b []byte
	for i, r := range e {
		if i > 0 {
			b = append(b, ',')
		}
		if b = strconv.AppendInt(b, int64(r.First), 10); r.Last > r.First {
			b = strconv.AppendInt(append(b, '-'), int64(r.Last), 10)
		}
	}
	return string(b)
}

// ParseElements returns what String wrote. It fails when they are not in their order, or more than a record has.
func ParseElements(text string) (out Elements, err error) {
	next := 0
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRun := strings.Cut(part, "-")
		if !isRun {
			last = first
		}
		r := Run{}
		if r.First, err = strconv.Atoi(first); err == nil {
			r.Last, err = strconv.Atoi(last)
		}
		if err != nil || r.First < next || r.Last < r.First || r.Last >= math.MaxInt32 {
			return nil, fmt.Errorf("%.80q names no elements of a record, such as 0-2,5", text)
		}
		out.Add(r)
		next = r.Last + 1
	}
	return out, nil
}
