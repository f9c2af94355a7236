package tenant

import (
	"errors"
	"strings"
	"time"
)

// Suspension is since when and why queries of a tenant are refused. Its readings are stored as before.
type Suspension struct {
	Since  time.Time
	Reason string
}

// suspensionBody is the property suspended of a tenant document.
type suspensionBody struct {
	Since  int64  `json:"since"`
	Reason string `json:"reason"`
}

// maxReason is how long the reason of a suspension may be, in bytes: every refused query has it.
const maxReason = 200

// SuspendChange suspends a tenant.
func SuspendChange(reason string, now time.Time) (Change, error) {
	reason = strings.TrimSpace(reason)
	if reason == "" || len(reason) > maxReason {
		return Change{}, errors.New("the reason of a suspension has 1 to 200 bytes: the tenant's users read it")
	}
	return Change{"suspended " + reason, func(b *tenantBody) error {
		b.Suspended = &suspensionBody{now.UnixMilli(), reason}
		return nil
	}}, nil
}

// ResumeChange ends a suspension, if there is one.
func ResumeChange() Change {
	return Change{"suspended default", func(b *tenantBody) error {
		b.Suspended = nil
		return nil
	}}
}
