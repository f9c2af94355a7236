package architecture_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
)

var logMethods = map[string]bool{"Debug": true, "Info": true, "Warn": true, "Error": true, "DebugContext": true,
	"InfoContext": true, "WarnContext": true, "ErrorContext": true}

// LogKeys returns the calls of a log in a Go source that name an error other than "error", as name:line.
func LogKeys(name, source string) ([]string, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var faults []string
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok && logMethods[s.Sel.Name] {
			for _, arg := range call.Args[min(1, len(call.Args)):] {
				if key, ok := arg.(*ast.BasicLit); ok && (key.Value == `"err"` || key.Value == `"cause"`) {
					faults = append(faults, fmt.Sprintf("%s: log key %s: errors have the key \"error\"", set.Position(key.Pos()),
						key.Value))
				}
			}
		}
		return true
	})
	return faults, nil
}
