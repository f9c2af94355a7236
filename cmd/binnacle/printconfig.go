package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"

	"binnacle/internal/settings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// redacted stands for the value of a secret.
const redacted = "REDACTED"

// printSettings writes what every flag of the subcommand is set to, wherever from, as a file that --config takes.
// Values that are tagged secret, and passwords in URLs, are redacted.
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
		switch v := value.(type) {
		case string:
			value = redactURL(v)
		case []string:
			for i := range v {
				v[i] = redactURL(v[i])
			}
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

// secretParameter fits the names of query parameters that hold secrets.
var secretParameter = regexp.MustCompile(`(?i)^(sig|code|.*(pass|pwd|secret|token|key|credential|signature).*)$`)

// redactURL returns a value as it may be shown: a URL without its user, password and secret query parameters, and
// every other text as it is.
func redactURL(text string) string {
	scheme := strings.Contains(text, "://")
	if !scheme && !strings.Contains(text, "@") {
		return text
	}
	full := text
	if !scheme {
		full = "//" + text // host:port, as many flags have it
	}
	u, err := url.Parse(full)
	if err != nil {
		return redacted // a URL that can't be read may hold anything
	}
	if u.User != nil {
		u.User = url.User(redacted)
	}
	changed := u.User != nil
	query := u.Query()
	for name := range query {
		if secretParameter.MatchString(name) {
			query.Set(name, redacted)
			changed = true
		}
	}
	if !changed {
		return text
	}
	u.RawQuery = query.Encode()
	if shown := u.String(); scheme {
		return shown
	} else {
		return strings.TrimPrefix(shown, "//")
	}
}
