package architecture_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// MaxBackward is how many in a hundred references between the files of a package may go backwards.
const MaxBackward = 10

// minReferences is from how many references between its files on a package is measured.
const minReferences = 40

// backwardCeilings has the packages beyond MaxBackward, each with its ceiling in percent. Entries only get lower.
var backwardCeilings = map[string]int{
	"binning":                      16,
	"cmd/binnacle":                 16,
	"internal/catalog":             24,
	"internal/control":             15,
	"internal/cosmos":              17,
	"internal/heat/heatlog":        17,
	"internal/kafka":               15,
	"internal/lab/emulator":        22,
	"internal/lab/emulator/engine": 11,
	"internal/lab/loadtest":        14,
	"internal/provision":           12,
	"internal/rollups":             14,
	"query/httpapi":                17,
	"query/prom":                   19,
}

// References are how often each file of a package names what another one declares, each name once.
type References struct {
	files  []string
	counts [][]int
}

// ReferencesOf counts references by names: those of the package, and those of methods that one file alone declares. It
// does not resolve types, so that a field with the name of a method counts as the method.
func ReferencesOf(p Package) References {
	r := References{files: slices.Sorted(maps.Keys(p.files))}
	names, methods := map[string]int{}, map[string]int{}
	for i, file := range r.files {
		for _, d := range p.files[file].Decls {
			declare(d, i, names, methods)
		}
	}
	for i, file := range r.files {
		row := make([]int, len(r.files))
		for name := range namedIn(p.files[file]) {
			at, ok := names[name]
			if method, isMethod := strings.CutPrefix(name, "."); isMethod {
				at, ok = methods[method]
			}
			if ok && at >= 0 && at != i {
				row[at]++
			}
		}
		r.counts = append(r.counts, row)
	}
	return r
}

// declare records which file declares the names of a declaration; -1 stands for several.
func declare(d ast.Decl, file int, names, methods map[string]int) {
	add := func(to map[string]int, name string) {
		if at, ok := to[name]; ok && at != file {
			file = -1
		}
		to[name] = file
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			add(methods, d.Name.Name)
		} else {
			add(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				add(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					add(names, n.Name)
				}
			}
		}
	}
}

// namedIn returns the names that a file uses: those behind a dot with it.
func namedIn(f *ast.File) map[string]bool {
	named, behind := map[string]bool{}, map[*ast.Ident]bool{}
	behind[f.Name] = true
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			behind[n.Sel] = true
			named["."+n.Sel.Name] = true
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				behind[key] = true
			}
		case *ast.Field:
			for _, name := range n.Names {
				behind[name] = true
			}
		case *ast.Ident:
			if !behind[n] {
				named[n.Name] = true
			}
		}
		return true
	})
	return named
}

// Backward returns how many references go backwards where the files are in the best order that is found, and how many
// there are.
func (r References) Backward() (back, all int, order []string) {
	best := make([]int, len(r.files))
	for i := range best {
		best[i] = i
	}
	out := func(i int) (n int) {
		for j := range r.files {
			n += r.counts[i][j] - r.counts[j][i]
		}
		return n
	}
	slices.SortStableFunc(best, func(a, b int) int { return out(b) - out(a) })
	for improved := true; improved; {
		improved = false
		for i := range r.files {
			improved = r.move(best, i) || improved
		}
	}
	for a, i := range best {
		order = append(order, r.files[i])
		for b, j := range best {
			if all += r.counts[i][j]; b < a {
				back += r.counts[i][j]
			}
		}
	}
	return back, all, order
}

// move puts a file where it makes the fewest references go backwards, and reports whether that is elsewhere.
func (r References) move(order []int, file int) bool {
	from := slices.Index(order, file)
	rest := slices.Delete(slices.Clone(order), from, from+1)
	cost, costs := 0, []int{0}
	for _, other := range rest { // file moves behind other: what it says of other goes backwards
		cost += r.counts[file][other] - r.counts[other][file]
		costs = append(costs, cost)
	}
	to := from
	for i, c := range costs {
		if c < costs[to] {
			to = i
		}
	}
	copy(order, slices.Insert(rest, to, file))
	return to != from
}

// Files are read from top to bottom: few references of a package go back to a file that was left.
func TestReferencesGoForward(t *testing.T) {
	packages, err := Load(root)
	require.NoError(t, err)
	var faults []string
	for _, p := range packages {
		back, all, order := ReferencesOf(p).Backward()
		if all < minReferences {
			continue
		}
		percent := 100 * back / all
		t.Logf("%3d %% of %4d  %s", percent, all, p.Path)
		if most := max(MaxBackward, backwardCeilings[p.Path]); percent > most {
			faults = append(faults, fmt.Sprintf("%s: %d of %d references between files go backwards, %d %% and not %d: %s",
				p.Path, back, all, percent, most, strings.Join(order, " ")))
		}
	}
	require.Empty(t, faults)
}

func TestBackward(t *testing.T) {
	p, err := NewPackage("a", map[string]string{
		"a.go": "package a\nfunc a() { b(); c(); var x t; x.m() }",
		"b.go": "package a\nfunc b() { c() }",
		"c.go": "package a\ntype t struct{ a int }\nfunc (t) m() {}\nfunc c() { _ = t{a: 1}; b() }",
	})
	require.NoError(t, err)
	back, all, order := ReferencesOf(p).Backward()
	require.Equal(t, []string{"a.go", "b.go", "c.go"}, order)
	require.Equal(t, 1, back, "c calls b")
	require.Equal(t, 6, all)
}

// The most methods and fields of a type.
const (
	MaxMethods = 40
	MaxFields  = 25
)

// largeTypes has the types beyond these, each with its methods and fields. Entries only get lower, and go.
var largeTypes = map[string][2]int{
	"binning/chunk.decoder":                  {49, 18},
	"cmd/binnacle.commands":                  {1, 31},
	"internal/app.process":                   {43, 13},
	"internal/cosmos.Client":                 {47, 10},
	"internal/lab/emulator.exchange":         {51, 6},
	"internal/lab/emulator/engine.Account":   {46, 9},
	"internal/lab/emulator/engine.Container": {45, 12},
}

// LargeTypes returns the types with too many methods or fields, with how many they have.
func LargeTypes(p Package) map[string][2]int {
	sizes := map[string][2]int{}
	count := func(name string, methods, fields int) {
		n := sizes[p.Path+"."+name]
		sizes[p.Path+"."+name] = [2]int{n[0] + methods, n[1] + fields}
	}
	for _, f := range p.files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					count(receiver(d.Recv.List[0].Type), 1, 0)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && d.Tok == token.TYPE {
						count(s.Name.Name, 0, fieldsOf(s.Type))
					}
				}
			}
		}
	}
	maps.DeleteFunc(sizes, func(_ string, n [2]int) bool { return n[0] <= MaxMethods && n[1] <= MaxFields })
	return sizes
}

// receiver returns the name of a method's type.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

func fieldsOf(x ast.Expr) (n int) {
	if s, ok := x.(*ast.StructType); ok {
		for _, f := range s.Fields.List {
			n += max(1, len(f.Names))
		}
	}
	return n
}

// A type has one job.
func TestTypesAreSmall(t *testing.T) {
	packages, err := Load(root)
	require.NoError(t, err)
	found := map[string][2]int{}
	for _, p := range packages {
		maps.Copy(found, LargeTypes(p))
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		n, most := found[name], largeTypes[name]
		t.Logf("%q: {%d, %d},", name, n[0], n[1])
		assert.LessOrEqual(t, n[0], max(MaxMethods, most[0]), "methods of %s", name)
		assert.LessOrEqual(t, n[1], max(MaxFields, most[1]), "fields of %s", name)
	}
	for name := range largeTypes {
		require.Contains(t, found, name, "it is small now: take it out of the table")
	}
}

func TestLargeTypes(t *testing.T) {
	source := "package a\ntype a[T any] struct{ x, y int; b }\ntype b int\n"
	for i := range MaxMethods + 1 {
		source += fmt.Sprintf("func (*a[T]) m%d() {}\nfunc (b) m%d() {}\n", i, i)
	}
	p, err := NewPackage("x", map[string]string{"a.go": source})
	require.NoError(t, err)
	require.Equal(t, map[string][2]int{"x.a": {41, 3}, "x.b": {41, 0}}, LargeTypes(p))
}
