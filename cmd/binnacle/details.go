package main

import (
	_ "embed"
	"strings"

	"github.com/alecthomas/kong"
)

// details has, below the path of each command, what to know before its first call, and examples.
//
//go:embed details.txt
var details string

// addDetails gives each command below a node what stands below its flags.
func addDetails(node *kong.Node, path string) {
	for _, command := range node.Children {
		at := strings.TrimPrefix(path+" "+command.Name, " ")
		_, text, _ := strings.Cut("\n"+details, "\n# "+at+"\n\n")
		text, _, _ = strings.Cut(text, "\n\n# ")
		command.Detail = strings.TrimSuffix(text, "\n")
		addDetails(command, at)
	}
}
