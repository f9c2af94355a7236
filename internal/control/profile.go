package control

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Profile is what operators write down about a tenant. Nothing follows from it.
type Profile struct {
	DisplayName string            `json:"displayName,omitempty"`
	Contact     string            `json:"contact,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
}

const (
	maxProfileText = 200 // bytes
	maxTags        = 50
)

var (
	tagName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$`)

	// ErrTooMany says that a tenant would have more of something than is stored of one.
	ErrTooMany = errors.New("too many")

	errTags = fmt.Errorf("%w: a tenant has at most 50 tags", ErrTooMany)
)

func checkProfileText(text string) error {
	if len(text) > maxProfileText || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%.40q is not a text of at most %d bytes in one line", text, maxProfileText)
	}
	return nil
}

// textChange sets a property of the profile, which has a setting's name; an empty text takes it out.
func textChange(property, name, text string) (Change, error) {
	text = strings.TrimSpace(text)
	if err := checkProfileText(text); err != nil {
		return Change{}, err
	}
	return profileChange(Change{path: []string{property}, named: name}, text), nil
}

// profileChange sets the value of a change to a text; an empty one takes the property out.
func profileChange(c Change, text string) Change {
	if text == "" {
		c.none = "none"
	} else {
		c.value = text
	}
	return c
}

// TagChanges sets tags of a tenant by their names; an empty value takes one out.
func TagChanges(tags map[string]string) (out []Change, err error) {
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		if !tagName.MatchString(name) {
			return nil, fmt.Errorf("tag %.80q: a name has 1 to 63 letters, digits, or any of . _ / - after the first", name)
		}
		text := strings.TrimSpace(tags[name])
		if err := checkProfileText(text); err != nil {
			return nil, fmt.Errorf("tag %s: %w", name, err)
		}
		c := profileChange(Change{path: []string{"tags", name}, named: "tag:" + name}, text)
		set := c
		c.update = func(body map[string]any) error {
			set.apply(body)
			if all, _ := body["tags"].(map[string]any); len(all) > maxTags {
				return errTags
			}
			return nil
		}
		out = append(out, c)
	}
	return out, nil
}
