package tenant

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxProfileText = 200 // bytes
	maxTags        = 50
)

var (
	tagName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$`)

	errTags = fmt.Errorf("%w: a tenant has at most 50 tags", ErrTooMany)
)

func checkProfileText(text string) error {
	if len(text) > maxProfileText || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%.40q is not a text of at most %d bytes in one line", text, maxProfileText)
	}
	return nil
}

// textChange sets a text of the profile; an empty one removes it.
func textChange(s Setting, in func(*Profile) *string) (Change, error) {
	text := strings.TrimSpace(s.Value)
	if err := checkProfileText(text); err != nil {
		return Change{}, err
	}
	return Change{s.Name + " " + cmp.Or(text, "none"), func(b *tenantBody) error {
		*in(&b.Profile) = text
		return nil
	}}, nil
}

// TagChanges sets tags of a tenant by their names; an empty value removes one.
func TagChanges(tags map[string]string) (out []Change, err error) {
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		if !tagName.MatchString(name) {
			return nil, fmt.Errorf("tag %.80q: a name has 1 to 63 letters, digits, or any of . _ / - after the first", name)
		}
		text := strings.TrimSpace(tags[name])
		if err := checkProfileText(text); err != nil {
			return nil, fmt.Errorf("tag %s: %w", name, err)
		}
		out = append(out, Change{"tag:" + name + " " + cmp.Or(text, "none"), func(b *tenantBody) error {
			return b.setTag(name, text)
		}})
	}
	return out, nil
}

// setTag sets a tag; an empty text removes it.
func (b *tenantBody) setTag(name, text string) error {
	if text == "" {
		delete(b.Tags, name)
		return nil
	}
	if b.Tags == nil {
		b.Tags = map[string]string{}
	}
	if b.Tags[name] = text; len(b.Tags) > maxTags {
		return errTags
	}
	return nil
}

// maxReason is how long the reason of a suspension may be, in bytes: every refused query has it.
const maxReason = 200

// SuspendChange suspends a tenant.
func SuspendChange(reason string, now time.Time) (Change, error) {
	reason = strings.TrimSpace(reason)
	if reason == "" || len(reason) > maxReason {
		return Change{}, errors.New("the reason of a suspension has 1 to 200 bytes: the tenant's users read it")
	}
	return Change{"suspended " + reason, func(b *tenantBody) error {
		b.Suspended = &suspensionBody{now.UnixMilli(), reason}
		return nil
	}}, nil
}

// ResumeChange ends a suspension, if there is one.
func ResumeChange() Change {
	return Change{"suspended default", func(b *tenantBody) error {
		b.Suspended = nil
		return nil
	}}
}
