package main

import (
	"reflect"

	"binnacle/internal/duration"

	"github.com/alecthomas/kong"
)

// durations reads Go's durations and days: 90s, 1h30m, 2d, 1d12h.
type durations struct{}

// Decode is kong.Mapper.
func (durations) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	var s string
	if err := ctx.Scan.PopValueInto("duration", &s); err != nil {
		return err
	}
	d, err := duration.Parse(s)
	if err != nil {
		return err
	}
	target.SetInt(int64(d))
	return nil
}
