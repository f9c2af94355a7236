package telemetry

import "time"

// ParseRFC3339 returns the instant, in UTC, that a text names as RFC 3339, 5.6, allows: t and z in lower case, any
// number of decimals, and the leap second at the end of a month, which is the second after it, as in Unix time. ok is
// false for any other text. The instant is rounded down to a millisecond by UnixMilli, and is after that millisecond if
// any decimal says so.
func ParseRFC3339[T string | []byte](text T) (at time.Time, ok bool) {
	const layout = "0000-00-00T00:00:00" // a digit for a 0
	if len(text) < len(layout)+1 {
		return at, false
	}
	for i := range len(layout) {
		switch c := text[i]; layout[i] {
		case '0':
			ok = c >= '0' && c <= '9'
		case 'T':
			ok = c|0x20 == 't'
		default:
			ok = c == layout[i]
		}
		if !ok {
			return at, false
		}
	}
	two := func(i int) int { return int(text[i]-'0')*10 + int(text[i+1]-'0') }
	year, month, day := two(0)*100+two(2), two(5), two(8)
	hour, minute, second := two(11), two(14), two(17)
	nanos, end, ok := decimals(text, len(layout))
	offset, zoned := zoneOffset(text[end:])
	if !ok || !zoned || hour > 23 || minute > 59 || second > 60 {
		return at, false
	}
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if month < 1 || month > 12 || date.Day() != day {
		return at, false
	}
	at = time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC).Add(-offset)
	if y, m, _ := at.Date(); second == 60 && at.Truncate(time.Second) != time.Date(y, m, 1, 0, 0, 0, 0, time.UTC) {
		return at, false
	}
	return at, true
}

// decimals returns the nanoseconds of the fraction of a second that may begin at a place, and where it ends. Behind
// nine decimals any that is not 0 adds one, unless that makes another millisecond.
func decimals[T string | []byte](text T, at int) (nanos, end int, ok bool) {
	if text[at] != '.' {
		return 0, at, true
	}
	unit := int(time.Second)
	for end = at + 1; end < len(text) && text[end] >= '0' && text[end] <= '9'; end++ {
		digit := int(text[end] - '0')
		if unit /= 10; unit > 0 {
			nanos += digit * unit
		} else if digit > 0 && nanos%int(time.Millisecond) == 0 {
			nanos++
		}
	}
	return nanos, end, end > at+1
}

// zoneOffset returns how far a zone, Z or hours and minutes with a sign, lies ahead of UTC.
func zoneOffset[T string | []byte](text T) (ahead time.Duration, ok bool) {
	if len(text) == 1 {
		return 0, text[0]|0x20 == 'z'
	}
	if len(text) != len("+00:00") || text[0] != '+' && text[0] != '-' || text[3] != ':' {
		return 0, false
	}
	for _, i := range [...]int{1, 2, 4, 5} {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	hours, minutes := int(text[1]-'0')*10+int(text[2]-'0'), int(text[4]-'0')*10+int(text[5]-'0')
	ahead = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if text[0] == '-' {
		ahead = -ahead
	}
	return ahead, hours <= 23 && minutes <= 59
}
