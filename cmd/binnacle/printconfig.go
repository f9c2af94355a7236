package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"binnacle/internal/settings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// redacted stands for the value of a secret.
const redacted = "REDACTED"

// printSettings writes what every flag of the subcommand is set to, wherever from, as a file that --config takes.
// Values that are tagged secret are left out.
func printSettings(w io.Writer, c *kong.Context) error {
	section := &yaml.Node{Kind: yaml.MappingNode}
	node := c.Selected()
	for _, flag := range node.Flags {
		value := settings.Value(flag.Target, flag.Tag.Type)
		switch v := value.(type) {
		case string:
			if v == "" && flag.Default == "" {
				continue // nobody has set it
			}
		case []string:
			if len(v) == 0 && flag.Default == "" {
				continue
			}
		}
		if at, ok := flag.Target.Interface().(time.Time); ok {
			if at.IsZero() {
				continue
			}
			value = at.Format(cmp.Or(flag.Tag.Format, time.RFC3339))
		}
		if flag.Tag.Has("secret") {
			value = redacted
		}
		var key, val yaml.Node
		key.SetString(flag.Name)
		if err := val.Encode(value); err != nil {
			return fmt.Errorf("print --%s: %w", flag.Name, err)
		}
		section.Content = append(section.Content, &key, &val)
	}
	var name yaml.Node
	name.SetString(sectionOf(node))
	document := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{&name, section}}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(document); err != nil {
		return fmt.Errorf("print the settings: %w", err)
	}
	return enc.Close()
}
