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

// Help is shown below the flags.
func (doctorCommand) Help() string {
	return `Without --measure nothing is changed. The exit code is 0 only when all is as it should be.

Examples:
  binnacle doctor --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle doctor --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys --measure --json > account.json
  binnacle loadtest --ru-factors account.json`
}

// Run is called by kong.
func (c *doctorCommand) Run(e *env) error {
	if c.Config.Measure && !c.Config.Yes && term.IsTerminal(int(os.Stdin.Fd())) {
		fmt.Fprintf(e.stderr, "A container of 400 RU/s is made in %s, measured and dropped, for $%.3f (list price). "+
			"Go on? [y/N] ",
			c.Config.Account.Cosmos, cosmos.ScratchDollars())
		answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if err != nil || !strings.EqualFold(strings.TrimSpace(answer), "y") {
			return errors.New("nothing was made")
		}
	}
	return app.Doctor(e.ctx, c.Config, e.app())
}
