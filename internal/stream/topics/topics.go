// Package topics selects the topics of a cluster that are read, and the tenants that topics are bound to. It sees
// only the names of topics. docs/operate/kafka.md is its manual.
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

// Default is the topic that is read where none is named. What is read by default is that and the topic of its
// backfills.
const Default = "telemetry"

// Suffixes of the topics that accompany a topic. No pattern matches a name with one of them.
const (
	JournalSuffix    = ".journal"
	DeadLetterSuffix = ".dlq"
	OrdersSuffix     = ".erasures" // orders of erasure, which a restored account lacks
)

// BackfillSuffix ends the names of topics with readings from long ago, which the first backfill creates.
const BackfillSuffix = ".backfill"

// IsBackfill reports whether a topic is for backfills.
func IsBackfill(name string) bool { return strings.HasSuffix(name, BackfillSuffix) }

// Topic is a topic that is read.
type Topic struct {
	Name   string
	Tenant string // the tenant that it is bound to; empty: its messages name their tenants
}

// Set selects topics. The zero Set selects none.
type Set struct {
	named       []Topic
	patterns    []pattern
	deadLetters string // topic of the dead letters
}

// pattern selects topics by their whole name.
type pattern struct {
	text   string // the pattern as it was given
	fits   *regexp.Regexp
	tenant string // the tenant that they are bound to, with $1 for the first group
}

// Parse parses lists of topics, separated by commas, each NAME, NAME=TENANT, /PATTERN/ or /PATTERN/=TENANT. The topic
// of the dead letters defaults to the first name with .dlq. Parse reports every fault at once.
func Parse(texts []string, letters string) (Set, error) {
	var s Set
	var faults []error
	for _, text := range texts {
		for _, one := range split(text) {
			faults = append(faults, s.add(strings.TrimSpace(one)))
		}
	}
	first := Default
	if named := s.Required(); len(named) > 0 {
		first = named[0]
	}
	s.deadLetters = cmp.Or(letters, first+DeadLetterSuffix)
	if len(s.named)+len(s.patterns) == 0 && errors.Join(faults...) == nil {
		faults = append(faults, errors.New("--topic names no topic"))
	}
	for _, t := range s.named {
		if t.Name == s.deadLetters {
			faults = append(faults, fmt.Errorf("--dead-letters %s: a topic can't hold its own dead letters", t.Name))
		}
	}
	return s, errors.Join(faults...)
}

// split cuts a text at the commas outside of patterns.
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
		return fmt.Errorf("--topic %s: a name that ends in %s is a journal, which has no readings", name, JournalSuffix)
	}
	if bound {
		if err := telemetry.CheckTenant(tenant); err != nil {
			return fmt.Errorf("--topic %.160q: %w", text, err)
		}
	}
	if slices.ContainsFunc(s.named, func(t Topic) bool { return t.Name == name }) {
		return fmt.Errorf("--topic %s is given twice", name)
	}
	s.named = append(s.named, Topic{name, tenant})
	return nil
}

func (s *Set) addPattern(text, rest string) error {
	expression, tenant, closed := strings.Cut(rest, "/")
	if !closed || tenant != "" && !strings.HasPrefix(tenant, "=") || tenant == "=" {
		return fmt.Errorf("--topic %.160q: a pattern must be /PATTERN/ or /PATTERN/=TENANT", text)
	}
	fits, err := regexp.Compile(`^(?:` + expression + `)$`)
	if err != nil {
		return fmt.Errorf("--topic %.160q: %w", text, err)
	}
	s.patterns = append(s.patterns, pattern{text, fits, strings.TrimPrefix(tenant, "=")})
	return nil
}

// maxName is the length of the longest topic name in Kafka.
const maxName = 249

func checkName(name string) error {
	if name == "" || len(name) > maxName || name == "." || name == ".." {
		return errors.New("this is not a topic name")
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("a topic name can't contain %q; write a pattern as /PATTERN/", c)
		}
	}
	return nil
}

// DeadLetters returns the topic of the dead letters.
func (s Set) DeadLetters() string { return s.deadLetters }

// Named returns the topics that are given by name.
func (s Set) Named() []string {
	out := make([]string, len(s.named))
	for i, t := range s.named {
		out[i] = t.Name
	}
	return out
}

// Required returns the topics that are given by name and must exist, without backfill topics.
func (s Set) Required() []string { return s.Main().Named() }

// Grows reports whether topics may be found later: topics of patterns, and of backfills.
func (s Set) Grows() bool { return s.HasPatterns() || slices.ContainsFunc(s.Named(), IsBackfill) }

// HasPatterns reports whether some topics are selected by a pattern, so that only the cluster knows them.
func (s Set) HasPatterns() bool { return len(s.patterns) > 0 }

// Single reports whether the set can only ever be one topic, and that of its backfills.
func (s Set) Single() bool {
	return len(s.patterns) == 0 && (len(s.Required()) == 1 && len(s.named) <= 2 || len(s.named) == 1)
}

// String returns the set in the form that Parse reads.
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

// Main returns the set without the topics of backfills, which may be there or not.
func (s Set) Main() Set {
	s.named = slices.DeleteFunc(slices.Clone(s.named), func(t Topic) bool { return IsBackfill(t.Name) })
	return s
}

// Of returns the topic of a name if the set selects it. The error is why a topic that matches a pattern can't be read.
// Names come before patterns, and the first pattern that matches counts.
func (s Set) Of(name string) (t Topic, ok bool, err error) {
	if i := slices.IndexFunc(s.named, func(t Topic) bool { return t.Name == name }); i >= 0 {
		return s.named[i], true, nil
	}
	if name == s.deadLetters || strings.HasSuffix(name, JournalSuffix) || strings.HasSuffix(name, DeadLetterSuffix) ||
		strings.HasSuffix(name, OrdersSuffix) || strings.HasPrefix(name, "__") { // Kafka's own topics begin with __
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
				return Topic{}, false, fmt.Errorf("topic %s matches %s but can't be read: %w", name, p.text, err)
			}
		}
		return t, true, nil
	}
	return Topic{}, false, nil
}

// Match returns the topics of a cluster that the set selects, in the order of their names, and the faults: names that
// the cluster lacks, patterns that match nothing, and topics that can't be bound to a tenant.
func (s Set) Match(all []string) (found []Topic, faults []error) {
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
		if !there[t.Name] && !IsBackfill(t.Name) {
			faults = append(faults, fmt.Errorf("topic %s does not exist", t.Name))
		}
	}
	for _, p := range s.patterns {
		if !slices.ContainsFunc(found, func(t Topic) bool { return p.fits.MatchString(t.Name) }) {
			faults = append(faults, fmt.Errorf("no topic matches %s", p.text))
		}
	}
	return found, faults
}
