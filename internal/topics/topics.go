// Package topics says which topics of a cluster are read, and whose they are where a topic belongs to one tenant alone.
// It knows the topics that there are by their names only: docs/guides/kafka.md is its manual.
package topics

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"binnacle/internal/telemetry"
)

// Default is the topic that is read where none is named.
const Default = "telemetry"

// What stands behind a topic's name in those that are made for it. No pattern fits a name that ends so.
const (
	JournalSuffix = ".journal"
	lettersSuffix = ".dlq"
)

// Topic is one that is read.
type Topic struct {
	Name   string
	Tenant string // whose it is; empty: its messages name their tenants
}

// Set is which topics are read. The zero Set has none.
type Set struct {
	named    []Topic
	patterns []pattern
	letters  string // topic of the dead letters
}

// pattern stands for the topics whose whole name fits.
type pattern struct {
	text   string // as it was given
	fits   *regexp.Regexp
	tenant string // whose they are, with $1 for what stands in the first parentheses
}

// Parse reads what is set: texts of topics, separated by commas, each NAME, NAME=TENANT, /PATTERN/ or /PATTERN/=TENANT;
// and the topic of the dead letters, empty for the first name with .dlq. It reports every fault at once.
func Parse(texts []string, letters string) (Set, error) {
	var s Set
	var faults []error
	for _, text := range texts {
		for _, one := range split(text) {
			faults = append(faults, s.add(strings.TrimSpace(one)))
		}
	}
	first := Default
	if len(s.named) > 0 {
		first = s.named[0].Name
	}
	s.letters = cmp.Or(letters, first+lettersSuffix)
	if len(s.named)+len(s.patterns) == 0 && errors.Join(faults...) == nil {
		faults = append(faults, errors.New("--topic names no topic"))
	}
	for _, t := range s.named {
		if t.Name == s.letters {
			faults = append(faults, fmt.Errorf("--dead-letters %s: a topic can't hold its own dead letters", t.Name))
		}
	}
	return s, errors.Join(faults...)
}

// split cuts at the commas that stand outside of patterns.
func split(text string) (parts []string) {
	inside, from := false, 0
	for i := range len(text) {
		switch {
		case text[i] == '/':
			inside = !inside
		case text[i] == ',' && !inside:
			parts, from = append(parts, text[from:i]), i+1
		}
	}
	return append(parts, text[from:])
}

func (s *Set) add(text string) error {
	if rest, ok := strings.CutPrefix(text, "/"); ok {
		return s.addPattern(text, rest)
	}
	name, tenant, bound := strings.Cut(text, "=")
	if err := checkName(name); err != nil {
		return fmt.Errorf("--topic %.80q: %w", text, err)
	}
	if strings.HasSuffix(name, JournalSuffix) {
		return fmt.Errorf("--topic %s: what ends in %s is a journal, and no topic that is read", name, JournalSuffix)
	}
	if bound {
		if err := telemetry.CheckTenant(tenant); err != nil {
			return fmt.Errorf("--topic %.160q: %w", text, err)
		}
	}
	if slices.ContainsFunc(s.named, func(t Topic) bool { return t.Name == name }) {
		return fmt.Errorf("--topic %s: it is named twice", name)
	}
	s.named = append(s.named, Topic{name, tenant})
	return nil
}

func (s *Set) addPattern(text, rest string) error {
	expression, tenant, closed := strings.Cut(rest, "/")
	if !closed || tenant != "" && !strings.HasPrefix(tenant, "=") || tenant == "=" {
		return fmt.Errorf("--topic %.160q: a pattern stands between slashes, and behind it nothing or =TENANT", text)
	}
	fits, err := regexp.Compile(`^(?:` + expression + `)$`)
	if err != nil {
		return fmt.Errorf("--topic %.160q: %w", text, err)
	}
	s.patterns = append(s.patterns, pattern{text, fits, strings.TrimPrefix(tenant, "=")})
	return nil
}

// maxName is the longest name of a topic that Kafka has.
const maxName = 249

func checkName(name string) error {
	if name == "" || len(name) > maxName || name == "." || name == ".." {
		return errors.New("this is not the name of a topic")
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("the name of a topic has no %q; a pattern stands between slashes", c)
		}
	}
	return nil
}

// Letters is the topic of the dead letters.
func (s Set) Letters() string { return s.letters }

// Named are the names of the topics that are named.
func (s Set) Named() []string {
	out := make([]string, len(s.named))
	for i, t := range s.named {
		out[i] = t.Name
	}
	return out
}

// Patterned reports whether a pattern stands for some of the topics: which there are is for the cluster to say.
func (s Set) Patterned() bool { return len(s.patterns) > 0 }

// Alone reports whether there is never more than one topic.
func (s Set) Alone() bool { return len(s.named) == 1 && len(s.patterns) == 0 }

// String is the set as it can be given, for people.
func (s Set) String() string {
	var all []string
	for _, t := range s.named {
		if t.Tenant != "" {
			t.Name += "=" + t.Tenant
		}
		all = append(all, t.Name)
	}
	for _, p := range s.patterns {
		all = append(all, p.text)
	}
	return strings.Join(all, ",")
}

// Of returns the topic of a name, if it is one that is read; the error says why one that a pattern fits is not. A name
// counts before patterns, and the first pattern that fits before others.
func (s Set) Of(name string) (t Topic, ok bool, err error) {
	if i := slices.IndexFunc(s.named, func(t Topic) bool { return t.Name == name }); i >= 0 {
		return s.named[i], true, nil
	}
	if name == s.letters || strings.HasSuffix(name, JournalSuffix) || strings.HasSuffix(name, lettersSuffix) ||
		strings.HasPrefix(name, "__") { // those are Kafka's own
		return Topic{}, false, nil
	}
	for _, p := range s.patterns {
		at := p.fits.FindStringSubmatchIndex(name)
		if at == nil {
			continue
		}
		t = Topic{Name: name}
		if p.tenant != "" {
			t.Tenant = string(p.fits.ExpandString(nil, p.tenant, name, at))
			if err := telemetry.CheckTenant(t.Tenant); err != nil {
				return Topic{}, false, fmt.Errorf("topic %s fits %s but can't be read: %w", name, p.text, err)
			}
		}
		return t, true, nil
	}
	return Topic{}, false, nil
}

// Among returns which topics of a cluster are read, by their names, and what is wrong: with names that it lacks,
// patterns that nothing fits, and topics that can't be bound.
func (s Set) Among(all []string) (found []Topic, faults []error) {
	there := map[string]bool{}
	for _, name := range slices.Sorted(slices.Values(all)) {
		t, ok, err := s.Of(name)
		if err != nil {
			faults = append(faults, err)
		}
		if ok {
			found, there[name] = append(found, t), true
		}
	}
	for _, t := range s.named {
		if !there[t.Name] {
			faults = append(faults, fmt.Errorf("topic %s does not exist", t.Name))
		}
	}
	for _, p := range s.patterns {
		if !slices.ContainsFunc(found, func(t Topic) bool { return p.fits.MatchString(t.Name) }) {
			faults = append(faults, fmt.Errorf("no topic fits %s", p.text))
		}
	}
	return found, faults
}
