package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"binnacle/internal/text/nearest"

	"github.com/alecthomas/kong"
)

// firstFlags lists, for commands with many flags, those that --help shows: the ones a newcomer needs first. --help-all
// shows all.
var firstFlags = map[string][]string{
	"dev": {"data-dir", "kafka", "cosmos", "api", "admin", "fleet", "topic", "default-tenant", "hold", "retention"},
	"serve": {"kafka", "event-hubs", "cosmos", "key-file", "identity", "topic", "api", "admin", "heads-listen",
		"register", "check"},
	"ingest": {"kafka", "event-hubs", "cosmos", "key-file", "identity", "topic", "group", "data-dir", "admin",
		"heads-listen", "heads-secret-file", "register", "check"},
	"query": {"heads", "heads-secret-file", "kafka", "event-hubs", "cosmos", "key-file", "identity", "topic", "api",
		"admin", "oidc-issuer", "trusted-proxies", "check"},
	"provision": {"cosmos", "key-file", "identity", "kafka", "topic", "dry-run", "once", "profile", "period", "hot-rus",
		"warm-rus", "cold-rus", "max-rus", "admin"},
	"replay": {"kafka", "topic", "format", "tenant", "device", "time-column", "shift-to", "rate", "dry-run", "from-dlq",
		"backfill"},
	"emulator": {"cosmos", "data-dir", "tls", "physical-partitions", "faults", "ru-model"},
	"loadtest": {"scenario", "devices", "partitions", "interval", "minutes", "hold", "html", "check", "json",
		"simulate", "target", "cosmos", "key-file", "yes"},
	"plan":  {"out", "set", "json", "from-topic", "kafka", "save"},
	"audit": {"from", "to", "tenant", "device", "columns", "log", "no-kafka", "json", "cosmos", "key-file", "kafka"},
}

// helpAll shows all flags of a command and ends.
type helpAll bool

func (helpAll) BeforeReset(ctx *kong.Context) error {
	err := printHelp(helpOptions, ctx)
	if err == nil {
		ctx.Exit(0)
	}
	return err
}

var helpOptions = kong.HelpOptions{Compact: true, FlagsLast: true}

func printShortHelp(options kong.HelpOptions, ctx *kong.Context) error {
	command := ctx.Selected()
	if command == nil || firstFlags[command.Name] == nil {
		return printHelp(options, ctx)
	}
	hidden := 0
	for _, flag := range command.Flags {
		if !flag.Hidden && !slices.Contains(firstFlags[command.Name], flag.Name) {
			flag.Hidden = true
			hidden++
		}
	}
	if err := printHelp(options, ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(ctx.Stdout, "%d more flags: binnacle %s --help-all\n", hidden, command.Path())
	return err
}

func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	options.ValueFormatter = func(v *kong.Value) string { return v.Help } // a variable's name follows from the flag's
	options.NoExpandSubcommands = ctx.Selected() == nil
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil || ctx.Selected() == nil {
		return err
	}
	command := pathOf(ctx.Selected())
	further := 0
	for _, flag := range ctx.Selected().Flags {
		if isKey(command, flag.Name) {
			further++
		}
	}
	text := "\nEach flag can also be set by a variable, BINNACLE_DATA_DIR for --data-dir, or in the --config file.\n"
	if further > 0 {
		text += fmt.Sprintf("The file has %d more keys: binnacle %s --print-config prints all with their help.\n", further,
			command)
	}
	_, err := fmt.Fprint(ctx.Stdout, text)
	return err
}

var unknownFlag = regexp.MustCompile(`^unknown flag --([a-z0-9-]+)$`)

// suggest adds the flag that resembles most what was given to the error of an unknown flag. kong itself suggests flags
// that differ in two letters at most.
func suggest(err error) error {
	var parse *kong.ParseError
	match := unknownFlag.FindStringSubmatch(err.Error())
	if match == nil || !errors.As(err, &parse) {
		return err
	}
	var names []string
	for _, level := range parse.Context.Flags() {
		names = append(names, level.Name)
	}
	if near := nearest.Name(match[1], names); near != "" {
		return fmt.Errorf("%w, did you mean \"--%s\"?", err, near)
	}
	return fmt.Errorf("%w (see --help-all)", err)
}
