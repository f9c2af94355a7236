package architecture_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Package is one package of the project without its tests.
type Package struct {
	Path    string // below the module, such as ingest/decode
	Sources map[string]string

	files map[string]*ast.File
	set   *token.FileSet
}

// NewPackage parses the sources, by file name.
func NewPackage(path string, sources map[string]string) (Package, error) {
	p := Package{path, sources, make(map[string]*ast.File), token.NewFileSet()}
	for name, text := range sources {
		f, err := parser.ParseFile(p.set, path+"/"+name, text, parser.SkipObjectResolution)
		if err != nil {
			return p, err
		}
		p.files[name] = f
	}
	return p, nil
}

// Load reads all packages of the module in dir.
func Load(dir string) ([]Package, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,GoFiles,CgoFiles,Dir", "./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []Package
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var found struct {
			ImportPath, Dir   string
			GoFiles, CgoFiles []string
		}
		if err := d.Decode(&found); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		sources := make(map[string]string)
		for _, f := range slices.Concat(found.GoFiles, found.CgoFiles) {
			text, err := os.ReadFile(filepath.Join(found.Dir, f))
			if err != nil {
				return nil, err
			}
			sources[f] = string(text)
		}
		path, _ := folder(found.ImportPath)
		p, err := NewPackage(path, sources)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// Imports returns the paths that the package imports, each once, in order.
func (p Package) Imports() []string {
	seen := make(map[string]bool)
	for _, f := range p.files {
		for _, i := range f.Imports {
			if path, err := strconv.Unquote(i.Path.Value); err == nil {
				seen[path] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// impure are names that the domain may not use of packages that it may import: clocks, timers, goroutines and output.
var impure = map[string][]string{
	"time": {"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"},
	"sync": {"WaitGroup", "Cond", "NewCond"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

// impurities returns the places of a domain package that start a goroutine, read a clock or write to the terminal,
// under whatever name the package is imported.
func impurities(p Package) (faults []string) {
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		f := p.files[name]
		local := make(map[string]string)
		for _, i := range f.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			if _, ok := impure[path]; !ok {
				continue
			}
			local[path] = path
			if i.Name != nil {
				local[i.Name.Name] = path
			}
			if i.Name != nil && i.Name.Name == "." {
				faults = append(faults, fmt.Sprintf("%s: %s is imported with a dot, so that its names have no package",
					p.set.Position(i.Pos()), path))
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if what := impurity(n, local); what != "" {
				faults = append(faults, fmt.Sprintf("%s: the domain %s", p.set.Position(n.Pos()), what))
			}
			return true
		})
	}
	return faults
}

// impurity returns the fault of a node in the domain, or "".
func impurity(n ast.Node, local map[string]string) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "starts a goroutine"
	case *ast.SelectStmt:
		return "waits in a select"
	case *ast.CallExpr:
		switch f := n.Fun.(type) {
		case *ast.SelectorExpr:
			if f.Sel.Name == "Go" { // of a WaitGroup, an errgroup, or whatever else starts one
				return "starts a goroutine by a method Go"
			}
		case *ast.Ident:
			if f.Name == "print" || f.Name == "println" {
				return "writes to the terminal"
			}
		}
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok {
			if path, known := local[x.Name]; known && slices.Contains(impure[path], n.Sel.Name) {
				return "uses " + path + "." + n.Sel.Name
			}
		}
	}
	return ""
}
