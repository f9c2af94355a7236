package main

import (
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"binnacle/internal/text/nearest"

	"github.com/alecthomas/kong"
)

// negative matches a value that begins with a minus: a time before now, such as -1d, or a number. No flag begins so.
var negative = regexp.MustCompile(`^-[0-9.]`)

// joinNegative joins each flag with the value that follows it where that begins with a minus: kong takes such a value
// for a flag.
func joinNegative(args []string) (out []string) {
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		last := len(out) - 1
		isFlag := last >= 0 && strings.HasPrefix(out[last], "--") && !strings.Contains(out[last], "=")
		if isFlag && negative.MatchString(arg) {
			out[last] += "=" + arg
			continue
		}
		out = append(out, arg)
	}
	return out
}

// ofFlags begins the names of the variables of flags.
const ofFlags = "BINNACLE_"

// ofServices matches the variables that Kubernetes sets in each pod for a service with a name like binnacle.
var ofServices = regexp.MustCompile(`(^|_)(SERVICE_(HOST|PORT(_.*)?)|PORT(_[0-9]+_(TCP|UDP)(_.*)?)?)$`)

// unknownVariables returns the variables that set nothing because no flag has their name, and those of flags; all
// without BINNACLE_.
func unknownVariables(of *kong.Application, environment []string) (unknown, known []string) {
	_ = kong.Visit(of, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			for _, name := range flag.Envs {
				known = append(known, strings.TrimPrefix(name, ofFlags))
			}
		}
		return next(nil)
	})
	for _, variable := range environment {
		name, isOurs := strings.CutPrefix(strings.Split(variable, "=")[0], ofFlags)
		if isOurs && !slices.Contains(known, name) && !ofServices.MatchString(name) {
			unknown = append(unknown, name)
		}
	}
	return unknown, known
}

// warnOfVariables warns of variables that set nothing for any command. command has the flags of one.
func warnOfVariables(command *kong.Application, environment []string, log *slog.Logger) {
	unknown, known := unknownVariables(command, environment)
	if len(unknown) > 0 {
		unknown, known = unknownVariables(allCommands(), environment)
	}
	for _, name := range unknown {
		said := []any{"variable", ofFlags + name}
		if near := nearest.Name(name, known); near != "" {
			said = append(said, "did_you_mean", ofFlags+near)
		}
		log.Warn("a variable sets nothing: no flag has its name", said...)
	}
}
