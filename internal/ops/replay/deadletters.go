package replay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/settings"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
)

// DeadLetters says which dead letters are published again, and with what mended. Its tags are package settings's.
type DeadLetters struct {
	FromDLQ     bool     `name:"from-dlq" help:"Publish dead letters again instead of a file, each to the partition of its record. Dead letters that an earlier replay published are skipped."`
	DeadLetters string   `help:"Topic of the dead letters. Default: the name of the first topic with .dlq." placeholder:"TOPIC"`
	Reasons     []string `name:"reason" help:"Publish dead letters with this reason only. It can be repeated. Default: any reason." placeholder:"REASON"`
	Since       string   `help:"Publish dead letters refused since then: a duration before now such as 2h or 7d, or a time such as 2026-11-20T10:00:00Z. Default: all." placeholder:"TIME"`
	Set         []string `help:"Override the readings' tenant or device: tenant=NAME, device=ID. It can be repeated." placeholder:"NAME=VALUE"`
	DryRun      bool     `help:"Show what would be published without publishing it. With --backfill: say what that would cost."`
}

// only reports whether something is set that needs FromDLQ, which is not.
func (l DeadLetters) only() bool {
	return !l.FromDLQ && (l.DeadLetters != "" || len(l.Reasons) > 0 || l.Since != "" || len(l.Set) > 0 || l.DryRun)
}

// validateDeadLetters reports every fault of the settings of a replay of dead letters.
func (c Config) validateDeadLetters() error {
	var faults settings.Faults
	ofFiles := cmp.Or(c.File, c.Format, c.Tenant, c.Device, c.DeviceColumn, c.TimeColumn, c.ShiftTo)
	faults.Check(ofFiles == "", "--from-dlq reads no file: --format, --tenant, --device, --device-column, --time-column "+
		"and --shift-to are about files; --set mends dead letters")
	known := decode.Reasons()
	for _, r := range c.DeadLetters.Reasons {
		faults.Check(slices.Contains(known, decode.Reason(r)), "--reason %.80q: reasons are %v", r, known)
	}
	_, noTime := c.DeadLetters.since(time.Time{})
	_, noNames := c.DeadLetters.names()
	faults.Add(noTime, noNames, c.Messages.Check(), c.target())
	return faults.Err()
}

// since returns the time in ms from which on dead letters count.
func (l DeadLetters) since(now time.Time) (int64, error) {
	if l.Since == "" {
		return 0, nil
	}
	if d, err := duration.Parse(l.Since); err == nil && d >= 0 {
		return now.Add(-d).UnixMilli(), nil
	}
	at, err := duration.ParseInstant(l.Since, now)
	if err != nil {
		return 0, fmt.Errorf("--since %.80q is neither a duration, such as 2h, nor a time, such as 2026-11-20T10:00:00Z",
			l.Since)
	}
	return at, nil
}

func (l DeadLetters) names() (names decode.Names, err error) {
	var faults settings.Faults
	for _, pair := range l.Set {
		name, value, _ := strings.Cut(pair, "=")
		switch err = nil; name {
		case "tenant":
			names.Tenant, err = value, telemetry.CheckTenant(value)
		case "device":
			names.Device, err = value, telemetry.CheckDevice(value)
		default:
			err = errors.New("only tenant and device can be set")
		}
		faults.Check(err == nil, "--set %.160s: %w", pair, err)
	}
	return names, faults.Err()
}
