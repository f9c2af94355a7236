package main_test

import (
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
