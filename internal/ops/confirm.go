package ops

import (
	"errors"
	"fmt"
	"strings"
)

// Confirmation is how a person confirms what can't be undone, of every command that hides or deletes.
type Confirmation struct {
	Confirm string `help:"Name of the tenant again, or all if none is named, to confirm what goes for good. Default: the terminal is asked." placeholder:"NAME"`
	DryRun  bool   `help:"Show what would go, and change nothing."`
}

// errNotConfirmed says that nothing was changed, because no confirmation came.
var errNotConfirmed = errors.New("nothing is changed")

// confirmed reports whether what goes was confirmed by its name: by the flag, or by an answer on the terminal. A name
// that is given and differs is an error, and so is a missing one without a terminal.
func (c Confirmation) confirmed(ask func(question string) (string, error), name string, goes []string) error {
	said := c.Confirm
	if said == "" && ask != nil {
		var err error
		question := strings.Join(goes, "\n") + fmt.Sprintf("\nType %s to confirm it: ", name)
		if said, err = ask(question); err != nil {
			return fmt.Errorf("%w: %w", errNotConfirmed, err)
		}
		if said != name {
			return fmt.Errorf("%w: the answer is not %s", errNotConfirmed, name)
		}
	}
	if said != name {
		return unfitError{fmt.Errorf("%w: %s: repeat with --confirm %s", errNotConfirmed,
			strings.TrimSuffix(strings.Join(goes, " "), "."), name)}
	}
	return nil
}
