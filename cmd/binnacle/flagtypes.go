package main

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/provision"
	"binnacle/internal/settings"

	"github.com/alecthomas/kong"
)

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

func spellings() []kong.Option {
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[time.Duration](), spelling{"", "duration"}),
		kong.TypeMapper(reflect.TypeFor[ru.Factors](), factorsFile{}),
		kong.NamedMapper(settings.Mebibytes, spelling{settings.Mebibytes, "MiB"}),
	}
}

func provisionDefaults() kong.Vars {
	p := provision.DefaultPolicy()
	return kong.Vars{"hot_rus": strconv.Itoa(p.HotRUs), "warm_rus": strconv.Itoa(p.WarmRUs),
		"cold_rus": strconv.Itoa(p.ColdRUs)}
}
