package main

import (
	"reflect"
	"time"

	"binnacle/internal/settings"

	"github.com/alecthomas/kong"
)

// spelling reads flags as package settings spells them.
type spelling struct{ kind, what string }

// Decode is kong.Mapper.
func (s spelling) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto(s.what, &text); err != nil {
		return err
	}
	return settings.Set(target, s.kind, text)
}

// spellings tell kong which flags are spelt in a way that it does not know.
func spellings() []kong.Option {
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[time.Duration](), spelling{"", "duration"}),
		kong.NamedMapper(settings.Mebibytes, spelling{settings.Mebibytes, "MiB"}),
	}
}
