package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/provision"
	"binnacle/internal/settings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// yamlFile is the values of a YAML file. Its keys are flags without dashes; a section that is named as a subcommand
// is for that subcommand and those below it alone, and goes before the rest of the file:
//
//	kafka: 127.0.0.1:9092
//	dev:
//	  hold: 5s
type yamlFile struct {
	file   string
	values map[string]any
}

func readSettings(r io.Reader) (kong.Resolver, error) {
	s := yamlFile{file: "--config"}
	if f, ok := r.(*os.File); ok {
		s.file = f.Name()
	}
	if err := yaml.NewDecoder(r).Decode(&s.values); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", s.file, err)
	}
	return s, nil
}

// Validate refuses keys that are no flag of any command: they would silently have no effect.
func (s yamlFile) Validate(app *kong.Application) error {
	if s.fits(app) == nil {
		return nil
	}
	return s.fits(allCommands())
}

func (s yamlFile) fits(app *kong.Application) error {
	flags := make(map[string]bool)
	for _, f := range app.Flags {
		flags[f.Name] = true
	}
	sections := make(map[string]map[string]bool)
	for _, command := range app.Children {
		own := names(command)
		sections[command.Name] = own
		maps.Copy(flags, own)
	}
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		section, nested := s.values[key].(map[string]any)
		switch {
		case nested && sections[key] != nil:
			for _, inner := range slices.Sorted(maps.Keys(section)) {
				if !sections[key][inner] {
					return fmt.Errorf("%s: %s: binnacle %[4]s has no flag --%[3]s", s.file, key, inner, key)
				}
			}
		case !flags[key]:
			return fmt.Errorf("%s: %s is neither a flag nor a subcommand", s.file, key)
		}
	}
	return nil
}

func names(command *kong.Node) map[string]bool {
	out := make(map[string]bool)
	for _, f := range command.Flags {
		out[f.Name] = true
	}
	for _, below := range command.Children {
		maps.Copy(out, names(below))
	}
	return out
}

// sectionOf returns the section of a command: the subcommand of binnacle that it is, or is below of.
func sectionOf(command *kong.Node) string {
	for command.Parent != nil && command.Parent.Type != kong.ApplicationNode {
		command = command.Parent
	}
	return command.Name
}

// Resolve returns the value of a flag that the command line does not set; nil keeps its value. kong has already read
// the environment and the defaults, so a flag that the environment sets is left to it.
func (s yamlFile) Resolve(_ *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return nil, nil
		}
	}
	value := s.values[flag.Name]
	if section, ok := s.values[sectionOf(parent.Node())].(map[string]any); ok && section[flag.Name] != nil {
		value = section[flag.Name]
	}
	switch value.(type) {
	case nil, []any:
		return value, nil
	case map[string]any:
		return nil, fmt.Errorf("%s holds a section, not a value", s.file)
	}
	return fmt.Sprint(value), nil // as it would stand on the command line
}

// spelling is the kong.Mapper of a flag that package settings parses.
type spelling struct{ kind, what string }

// Decode implements kong.Mapper.
func (s spelling) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto(s.what, &text); err != nil {
		return err
	}
	return settings.Set(target, s.kind, text)
}

// factorsFile is the kong.Mapper of a file of factors.
type factorsFile struct{}

// Decode implements kong.Mapper.
func (factorsFile) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	var name string
	if err := ctx.Scan.PopValueInto("file", &name); err != nil || name == "" {
		return err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	factors, err := ru.ParseFactors(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	factors.Source = name
	target.Set(reflect.ValueOf(factors))
	return nil
}

// newParser returns a parser of command lines.
func newParser(into *commands, options ...kong.Option) *kong.Kong {
	p := provision.DefaultPolicy()
	return kong.Must(into, append(options,
		kong.Name("binnacle"),
		kong.Description("A store for device telemetry on Azure Cosmos DB.\n\nTry: binnacle dev"),
		kong.DefaultEnvars("BINNACLE"),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), spelling{"", "duration"}),
		kong.TypeMapper(reflect.TypeFor[ru.Factors](), factorsFile{}),
		kong.NamedMapper(settings.Mebibytes, spelling{settings.Mebibytes, "MiB"}),
		kong.Vars{"hot_rus": strconv.Itoa(p.HotRUs), "warm_rus": strconv.Itoa(p.WarmRUs),
			"cold_rus": strconv.Itoa(p.ColdRUs)},
	)...)
}

// allCommands returns all commands with their flags.
func allCommands() *kong.Application { return newParser(new(commands)).Model }

// onlyCommand leaves out all commands but one, if there is one of the name: the flags of all take 30 ms of CPU.
func onlyCommand(name string) kong.Option {
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[commands]()) {
		if _, isCommand := f.Tag.Lookup("cmd"); isCommand {
			fields = append(fields, `^commands\.`+f.Name+"$")
		}
	}
	i := slices.IndexFunc(fields, func(f string) bool { return strings.EqualFold(f, `^commands\.`+name+"$") })
	if i < 0 {
		return kong.IgnoreFields()
	}
	return kong.IgnoreFields(slices.Delete(fields, i, i+1)...)
}
