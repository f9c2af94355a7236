package telemetry

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxNameRunes is the longest device id, metric name, label name or tag name, in characters.
const MaxNameRunes = 200

// MaxTenantBytes is the longest tenant name.
const MaxTenantBytes = 63

// reservedTenant names the dead letters and so can't name a tenant.
const reservedTenant = "dlq"

// CheckTenant returns an error unless name can be a tenant's name; it names what is allowed.
func CheckTenant(name string) error {
	const allowed = "a tenant is 1 to 63 of a-z, 0-9 and -, not beginning with -"
	if name == "" || len(name) > MaxTenantBytes {
		return fmt.Errorf("tenant %.80q has %d characters: %s", name, len(name), allowed)
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || i == 0) {
			return fmt.Errorf("tenant %q has %q at %d: %s", name, c, i, allowed)
		}
	}
	if name == reservedTenant {
		return fmt.Errorf("tenant %q is reserved", name)
	}
	return nil
}

// CheckDevice returns an error unless id can be a device's id. Characters outside the Basic Multilingual Plane are
// refused because azcosmos does not send them as valid JSON in a key, and / \ ? # because ids with them can't be
// addressed through every gateway.
func CheckDevice(id string) error {
	const allowed = `a device id is 1 to 200 printable characters of the Basic Multilingual Plane without / \ ? #`
	if err := checkLength("device id", id, allowed); err != nil {
		return err
	}
	for i, r := range id {
		switch {
		case r == '/' || r == '\\' || r == '?' || r == '#', r > 0xFFFF, !unicode.IsPrint(r):
			return fmt.Errorf("device id %q has %q at byte %d: %s", id, r, i, allowed)
		}
	}
	return nil
}

// CheckName returns an error unless name can be the name of a metric, label or tag; what is the word for it in the
// error, such as "metric".
func CheckName(what, name string) error {
	const allowed = "a name is 1 to 200 characters without control characters"
	if err := checkLength(what, name, allowed); err != nil {
		return err
	}
	for i, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("%s %q has a control character at byte %d: %s", what, name, i, allowed)
		}
	}
	return nil
}

func checkLength(what, s, allowed string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s %.80q is not valid UTF-8: %s", what, s, allowed)
	}
	if n := utf8.RuneCountInString(s); n == 0 || n > MaxNameRunes {
		return fmt.Errorf("%s %.80q has %d characters: %s", what, s, n, allowed)
	}
	return nil
}
