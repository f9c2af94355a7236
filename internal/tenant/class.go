package tenant

import (
	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RetentionClass is how long the readings of some devices are kept.
type RetentionClass struct {
	// Devices is a pattern of ids, in which * matches any text, or a tag, {name=value}.
	Devices string
	// Keep counts from the end of a reading's day; 0 never ends.
	Keep time.Duration
	// First is the first visible day as it was stored: earlier days are refused and not answered, and it never goes back.
	First telemetry.Day
}

const (
	// retentionLead is how far after a change of retention a writer that does not know it may place readings (rule W1).
	retentionLead = 2 * time.Hour
	// takeBackMargin is how long before it comes into force a change can no more be taken back: clocks differ.
	takeBackMargin = 5 * time.Minute

	maxRetentionClasses  = 64
	maxRetentionPolicies = 128

	// allDevices is the pattern of the last class, which flags call defaultClass.
	allDevices   = "*"
	defaultClass = "default"
	// forEver is no end, in flags.
	forEver = "forever"
)

func classOf(classes []RetentionClass, device string, has func(class string) bool) RetentionClass {
	for _, c := range classes {
		if c.isTag() && has(c.Devices) || !c.isTag() && matches(c.Devices, device) {
			return c
		}
	}
	return RetentionClass{Devices: allDevices}
}

// keepsLonger reports whether a retention keeps longer than another; 0 never ends.
func keepsLonger(a, b time.Duration) bool { return a != b && (a == 0 || b != 0 && a > b) }

// shortens reports whether some device may be kept for less with classes than with the classes before: a new class is
// compared with every class that its devices may have had.
func shortens(before, classes []RetentionClass) bool {
	for i, c := range classes {
		for _, was := range before {
			ofOthers := slices.ContainsFunc(classes[:i], func(x RetentionClass) bool { return x.Devices == was.Devices })
			if !ofOthers && keepsLonger(was.Keep, c.Keep) {
				return true
			}
			if was.Devices == c.Devices {
				break
			}
		}
	}
	return false
}

func (c RetentionClass) isTag() bool { return strings.HasPrefix(c.Devices, "{") }

func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for _, part := range parts[1 : len(parts)-1] {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return strings.HasSuffix(text, last)
}

// ClassText returns a class as the flag has it.
func ClassText(c RetentionClass) string { return retentionText([]RetentionClass{c}) }

func retentionText(classes []RetentionClass) string {
	var parts []string
	for _, c := range classes {
		name, keep := c.Devices, forEver
		if name == allDevices {
			name = defaultClass
		}
		if c.Keep > 0 {
			keep = duration.String(c.Keep)
		}
		parts = append(parts, name+"="+keep)
	}
	return strings.Join(parts, ",")
}

func date(day telemetry.Day) string { return time.UnixMilli(day.Start()).UTC().Format(time.DateOnly) }

func parseRetention(text string) (classes []RetentionClass, hasDefault bool, err error) {
	if !strings.Contains(text, "=") {
		text = defaultClass + "=" + text
	}
	var last RetentionClass
	for part := range strings.SplitSeq(text, ",") {
		i := strings.LastIndex(part, "=")
		if i <= 0 {
			return nil, false, fmt.Errorf("retention %q is not of the form DEVICES=DURATION", part)
		}
		c := RetentionClass{Devices: part[:i]}
		if _, _, err := parseTag(c.Devices); err != nil {
			return nil, false, err
		}
		if c.Keep, err = parseKeep(part[i+1:]); err != nil {
			return nil, false, err
		}
		if c.Devices == defaultClass {
			c.Devices = allDevices
		}
		switch {
		case c.Devices == allDevices && hasDefault, slices.ContainsFunc(classes,
			func(x RetentionClass) bool { return x.Devices == c.Devices }):
			return nil, false, fmt.Errorf("retention has %q twice", part[:i])
		case c.Devices == allDevices:
			last, hasDefault = c, true
		default:
			classes = append(classes, c)
		}
	}
	if hasDefault {
		classes = append(classes, last)
	}
	if len(classes) > maxRetentionClasses {
		return nil, false, fmt.Errorf("retention has %d classes, and %d are allowed", len(classes), maxRetentionClasses)
	}
	return classes, hasDefault, nil
}

func parseKeep(text string) (time.Duration, error) {
	if text == forEver {
		return 0, nil
	}
	keep, err := duration.Parse(text)
	if years, ok := strings.CutSuffix(text, "y"); ok {
		var n uint64
		n, err = strconv.ParseUint(years, 10, 7)
		keep = time.Duration(n) * 365 * duration.Day
	}
	if err != nil || keep < time.Second || keep%time.Second != 0 {
		return 0, fmt.Errorf("a retention of %q is neither forever nor whole seconds, such as 12h, 400d or 10y", text)
	}
	return keep, nil
}

func (c RetentionClass) keepsTheSame(other RetentionClass) bool {
	return c.Devices == other.Devices && c.Keep == other.Keep
}

// keepsAsLong reports whether c is of the same devices as other and keeps them at least as long.
func (c RetentionClass) keepsAsLong(other RetentionClass) bool {
	return c.Devices == other.Devices && !c.isTag() && (c.Keep == 0 || other.Keep > 0 && other.Keep <= c.Keep)
}

// RetentionTag is a tag that a class of retention names, as {name=value}.
type RetentionTag struct{ Name, Value string }

// String returns the tag as a class has it.
func (g RetentionTag) String() string { return "{" + g.Name + "=" + g.Value + "}" }

// parseTag returns the tag of a class, if it is one by tag.
func parseTag(devices string) (g RetentionTag, ok bool, err error) {
	if !strings.HasPrefix(devices, "{") {
		return g, false, nil
	}
	inner, closed := strings.CutSuffix(devices[1:], "}")
	g.Name, g.Value, ok = strings.Cut(inner, "=")
	if !closed || !ok || g.Name == "" || g.Value == "" || strings.ContainsAny(inner, "{}*") {
		return g, true, fmt.Errorf("retention %q is not of the form {TAG=VALUE}", devices)
	}
	return g, true, nil
}

// RetentionTags returns the tags that a RetentionChange names.
func RetentionTags(text string) ([]RetentionTag, error) {
	classes, _, err := parseRetention(text)
	return tagsOf(classes), err
}

func tagsOf(classes []RetentionClass) (tags []RetentionTag) {
	for _, c := range classes {
		if g, ok, err := parseTag(c.Devices); ok && err == nil {
			tags = append(tags, g)
		}
	}
	return tags
}
