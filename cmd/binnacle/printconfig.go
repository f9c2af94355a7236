package main

import (
	"cmp"
	"encoding/json"
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

// printSettings writes the value of every setting of the subcommand, wherever it is set, as a file that --config takes,
// each below its help. A setting that is not set, and has no default, stands in a comment. Values that are tagged
// secret, and passwords in URLs, are redacted.
func printSettings(w io.Writer, c *kong.Context) error {
	section := &yaml.Node{Kind: yaml.MappingNode}
	node := c.Selected()
	unset := ""
	for _, flag := range node.Flags {
		comment := unset + manual(flag.Help)
		value, isSet := settingOf(flag)
		if !isSet {
			unset = fmt.Sprintf("%s\n%s: %s\n\n", comment, flag.Name, cmp.Or(flag.PlaceHolder, "VALUE"))
			continue
		}
		var key, val yaml.Node
		key.SetString(flag.Name)
		key.HeadComment, unset = comment, ""
		if err := val.Encode(value); err != nil {
			return fmt.Errorf("print --%s: %w", flag.Name, err)
		}
		section.Content = append(section.Content, &key, &val)
	}
	if last := len(section.Content) - 2; last >= 0 {
		section.Content[last].FootComment = strings.TrimSpace(unset)
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

func settingOf(flag *kong.Flag) (value any, isSet bool) {
	if flag.Tag.Has("secret") && !flag.Target.IsZero() {
		return redacted, true
	}
	value = settings.Value(flag.Target, flag.Tag.Type)
	if at, ok := flag.Target.Interface().(time.Time); ok {
		return at.Format(cmp.Or(flag.Tag.Format, time.RFC3339)), !at.IsZero()
	}
	switch v := value.(type) {
	case string:
		return redactURL(v), v != "" || flag.Default != ""
	case []string:
		for i := range v {
			v[i] = redactURL(v[i])
		}
		return v, len(v) > 0 || flag.Default != ""
	}
	return value, true
}

// manual returns the help of a flag as the comment above its key, in lines of at most 100 characters.
func manual(help string) string {
	var text strings.Builder
	line := 0
	for _, word := range strings.Fields(help) {
		if line+len(word) > 96 {
			text.WriteString("\n")
			line = 0
		} else if line > 0 {
			text.WriteString(" ")
		}
		text.WriteString(word)
		line += len(word) + 1
	}
	return text.String()
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

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
