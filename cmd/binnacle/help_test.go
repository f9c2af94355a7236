package main_test

import (
	"reflect"
	"strings"
	"testing"

	main "binnacle/cmd/binnacle"

	"github.com/stretchr/testify/require"
)

func TestRedactURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "",
		"127.0.0.1:8081":                   "127.0.0.1:8081",
		"./binnacle-data":                  "./binnacle-data",
		"/lines[.](.+)/=$1":                "/lines[.](.+)/=$1",
		"https://a.example/?x=1&y=2":       "https://a.example/?x=1&y=2",
		"https://user:pw@reg.example:8081": "https://REDACTED@reg.example:8081",
		"https://token@reg.example/x":      "https://REDACTED@reg.example/x",
		"user:pw@host:7072":                "REDACTED@host:7072",
		"https://a.example/x?sv=1&sig=abc": "https://a.example/x?sig=REDACTED&sv=1",
		"https://a.example/?Password=p":    "https://a.example/?Password=REDACTED",
		"https://a.example/?api_key=k":     "https://a.example/?api_key=REDACTED",
		"https://user:p%zz@host":           "REDACTED",
	} {
		require.Equal(t, want, main.RedactURL(text), text)
	}
}

// TestHelpListsEveryCommand holds that no command is left out of what a newcomer reads.
func TestHelpListsEveryCommand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args    []string
		grammar any
	}{
		{[]string{"--help"}, main.Commands{}},
		{[]string{"tenant", "--help"}, main.TenantCommand{}},
	} {
		code, help, _ := inProcess(t, tc.args...)
		require.Equal(t, 0, code)
		grammar, listed := reflect.TypeOf(tc.grammar), 0
		for i := range grammar.NumField() {
			field := grammar.Field(i)
			if _, command := field.Tag.Lookup("cmd"); !command {
				continue
			}
			name := strings.Join(append(tc.args[:len(tc.args)-1:len(tc.args)-1], strings.ToLower(field.Name)), " ")
			require.Contains(t, help, "\n  "+name+" ")
			listed++
		}
		require.Greater(t, listed, 10)
	}
}
