package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"binnacle/internal/app"
	"binnacle/internal/cosmos"

	"golang.org/x/term"
)

type doctorCommand struct {
	Config app.DoctorConfig `kong:"embed"`
}

func (doctorCommand) Help() string {
	return `Without --measure nothing is changed. The exit code is 0 only if every check passes.

Examples:
  binnacle doctor --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle doctor --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys --measure --json > account.json
  binnacle loadtest --ru-factors account.json`
}

func (c *doctorCommand) Run(e *env) error {
	if c.Config.Measure && !c.Config.Yes && term.IsTerminal(int(os.Stdin.Fd())) {
		fmt.Fprintf(e.stderr, "Create a container of 400 RU/s in %s, measure it and drop it, for $%.3f (list price)? [y/N] ",
			c.Config.Account.Cosmos, cosmos.ScratchDollars())
		answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if err != nil || !strings.EqualFold(strings.TrimSpace(answer), "y") {
			return errors.New("canceled: nothing was created")
		}
	}
	return app.Doctor(e.ctx, c.Config, e.app())
}
