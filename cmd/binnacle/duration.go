package main

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

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
	d, err := parseDuration(s)
	if err != nil {
		return err
	}
	target.SetInt(int64(d))
	return nil
}

func parseDuration(s string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is no duration: write 90s, 1h30m, 2d or 1d12h", s)
	days, rest, hasDays := strings.Cut(s, "d")
	if !hasDays {
		days, rest = "", s
	}
	var total time.Duration
	if hasDays {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n < 0 || n > 100_000 {
			return 0, wrong
		}
		total = time.Duration(n * float64(24*time.Hour))
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || hasDays && d < 0 {
			return 0, wrong
		}
		total += d
	}
	if s == "" {
		return 0, wrong
	}
	return total, nil
}
