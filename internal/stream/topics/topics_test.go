package topics_test

import (
	"fmt"
	"testing"

	"binnacle/internal/stream/topics"

	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, texts ...string) topics.Set {
	s, err := topics.Parse(texts, "")
	require.NoError(t, err)
	return s
}

func TestTopicByNameOrPattern(t *testing.T) {
	for _, c := range []struct {
		text, name, tenant string
		fits               bool
	}{
		{"telemetry", "telemetry", "", true},
		{"telemetry", "telemetry2", "", false},
		{"telemetry,press", "press", "", true},
		{" telemetry , press ", "press", "", true},
		{"telemetry,press=acme", "press", "acme", true},
		{"telemetry,press=acme", "telemetry", "", true},
		{`/telemetry\..*/`, "telemetry.press", "", true},
		{`/telemetry\..*/`, "telemetry", "", false},
		{`/telemetry\..*/`, "old-telemetry.press", "", false}, // all of the name fits, or none
		{`/a|b/`, "b", "", true},
		{`/a|b/`, "bb", "", false},
		{`/line-[0-9]{1,3}/,rest`, "line-12", "", true}, // the comma is the pattern's
		{`/line-[0-9]{1,3}/,rest`, "rest", "", true},
		{`/telemetry\.(.+)/=$1`, "telemetry.acme", "acme", true},
		{`/(?P<who>.+)\.telemetry/=t-${who}`, "acme.telemetry", "t-acme", true},
		{`/.*/=all,press=acme`, "press", "acme", true}, // a name counts before patterns
		{`/p.*/=one,/.*/=two`, "press", "one", true},   // and the first pattern before others
		{`/p.*/=one,/.*/=two`, "x", "two", true},
		{`/.*/`, "telemetry.journal", "", false}, // what is made for topics is none
		{`/.*/`, "other.dlq", "", false},
		{`/.*/`, "__consumer_offsets", "", false},
	} {
		t.Run(fmt.Sprint(c.text, " ", c.name), func(t *testing.T) {
			got, ok, err := parse(t, c.text).Of(c.name)
			require.NoError(t, err)
			require.Equal(t, c.fits, ok)
			if ok {
				require.Equal(t, topics.Topic{Name: c.name, Tenant: c.tenant}, got)
			}
		})
	}
}

// The topic of backfills is read if it is there, and is no fault while it is not.
func TestTopicOfBackfills(t *testing.T) {
	s := parse(t, "telemetry.backfill,press=acme,telemetry")
	require.Equal(t, []string{"press", "telemetry"}, s.Required())
	require.Equal(t, "press=acme,telemetry", s.Main().String())
	require.Equal(t, "press.dlq", s.DeadLetters(), "of the first topic that devices publish to")
	found, faults := s.Match([]string{"press", "telemetry"})
	require.Empty(t, faults)
	require.Len(t, found, 2)
	found, faults = s.Match([]string{"press", "telemetry", "telemetry.backfill"})
	require.Empty(t, faults)
	require.Len(t, found, 3)
	for text, single := range map[string]bool{"telemetry": true, "telemetry,telemetry.backfill": true, "a,b": false,
		"telemetry.backfill": true, "/.*/": false, "a,a.backfill,b.backfill": false} {
		require.Equal(t, single, parse(t, text).Single(), text)
	}
	for text, grows := range map[string]bool{"telemetry": false, "telemetry,telemetry.backfill": true, "/.*/": true} {
		require.Equal(t, grows, parse(t, text).Grows(), text)
	}
}

func TestDeadLetterTopic(t *testing.T) {
	require.Equal(t, "press.dlq", parse(t, "press").DeadLetters())
	require.Equal(t, "press.dlq", parse(t, "press", "other").DeadLetters())
	require.Equal(t, "telemetry.dlq", parse(t, "/.*/").DeadLetters())
	s, err := topics.Parse([]string{"/.*/"}, "refused")
	require.NoError(t, err)
	require.Equal(t, "refused", s.DeadLetters())
	_, ok, err := s.Of("refused")
	require.NoError(t, err)
	require.False(t, ok, "a pattern does not fit the topic of the dead letters")
}

func TestParseRefusesInvalidTopics(t *testing.T) {
	for text, want := range map[string]string{
		"":                  `--topic "": this is not a topic name`,
		"a,,b":              `--topic "": this is not a topic name`,
		"a,a":               "--topic a is given twice",
		"a,a=acme":          "--topic a is given twice",
		"telemetry.*":       `--topic "telemetry.*": a topic name can't contain '*'; write a pattern as /PATTERN/`,
		"^telemetry":        `--topic "^telemetry": a topic name can't contain '^'; write a pattern as /PATTERN/`,
		"/a(/":              `error parsing regexp: missing closing )`,
		"/a":                `--topic "/a": a pattern must be /PATTERN/ or /PATTERN/=TENANT`,
		"/a/b":              `a pattern must be /PATTERN/ or /PATTERN/=TENANT`,
		"/a/=":              `a pattern must be /PATTERN/ or /PATTERN/=TENANT`,
		"a=Acme":            `tenant "Acme" has 'A' at 0`,
		"a=":                `tenant "" has 0 characters`,
		"telemetry.journal": "--topic telemetry.journal: a name that ends in .journal is a journal, which has no readings",
	} {
		_, err := topics.Parse([]string{text}, "")
		require.ErrorContains(t, err, want, text)
	}
	_, err := topics.Parse([]string{"a", "b"}, "b")
	require.EqualError(t, err, "--dead-letters b: a topic can't hold its own dead letters")
	_, err = topics.Parse(nil, "")
	require.EqualError(t, err, "--topic names no topic")
}

func TestMatchOfClusterTopics(t *testing.T) {
	s := parse(t, `gone,press=acme,/line-(.+)/=$1,/x.*/`)
	found, faults := s.Match([]string{"press", "line-a", "line-B", "line-a.journal", "gone.dlq", "else"})
	require.Equal(t, []topics.Topic{{Name: "line-a", Tenant: "a"}, {Name: "press", Tenant: "acme"}}, found)
	var texts []string
	for _, f := range faults {
		texts = append(texts, f.Error())
	}
	require.Len(t, texts, 3)
	require.Contains(t, texts[0], `topic line-B matches /line-(.+)/=$1 but can't be read: tenant "B" has 'B' at 0`)
	require.Equal(t, []string{"topic gone does not exist", "no topic matches /x.*/"}, texts[1:])
	require.Equal(t, "gone,press=acme,/line-(.+)/=$1,/x.*/", s.String())
	require.True(t, s.HasPatterns())
	require.Equal(t, []string{"gone", "press"}, s.Named())
	require.True(t, parse(t, "a").Single())
	require.False(t, parse(t, "a,b").Single())
	require.False(t, parse(t, "/a/").Single())
}
