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

// warnOfVariables warns of variables that set nothing because their name is that of no flag.
func warnOfVariables(of *kong.Application, environment []string, log *slog.Logger) {
	var known []string
	_ = kong.Visit(of, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			for _, name := range flag.Envs {
				known = append(known, strings.TrimPrefix(name, ofFlags))
			}
		}
		return next(nil)
	})
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		name, isOurs := strings.CutPrefix(name, ofFlags)
		if !isOurs || slices.Contains(known, name) || ofServices.MatchString(name) {
			continue
		}
		const says = "a variable sets nothing: no flag has its name"
		if near := nearest.Name(name, known); near != "" {
			log.Warn(says, "variable", ofFlags+name, "did_you_mean", ofFlags+near)
		} else {
			log.Warn(says, "variable", ofFlags+name)
		}
	}
}
