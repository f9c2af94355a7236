package loadtest

import (
	"strconv"
	"time"

	"binnacle/sharding"
)

// keyed is what a key is made of.
type keyed struct {
	tenant, device string
	// at is the reading's time.
	at time.Time
}

// keySuffixes is how many values the suffix of KeyHash has, as in the guidance's example key_hash%20.
const keySuffixes = 20

// minuteFormat is the time in keys, as on the service's page on partition keys for IoT.
const minuteFormat = "2006-01-02T15:04"

func (l Layout) kind() kind {
	switch l {
	case ByDate:
		return kind{"reading, by date", []string{"/date"},
			func(k keyed) []string { return []string{k.at.Format(time.DateOnly)} }}
	case ByDevice:
		return kind{"reading, by tenant, device", []string{"/tenant", "/device"}, nil}
	case Device:
		return kind{"reading, by device", []string{"/device"}, func(k keyed) []string { return []string{k.device} }}
	case DeviceTime:
		return kind{"reading, by device, time", []string{"/device", "/minute"},
			func(k keyed) []string { return []string{k.device, k.at.Format(minuteFormat)} }}
	case DeviceMinute:
		return kind{"reading, by device_minute", []string{"/deviceMinute"},
			func(k keyed) []string { return []string{k.device + "_" + k.at.Format(minuteFormat)} }}
	case KeyHash:
		return kind{"reading, by tenant, hash%20", []string{"/tenantHash"}, func(k keyed) []string {
			return []string{k.tenant + "_" + strconv.Itoa(sharding.GroupOf(k.device, keySuffixes))}
		}}
	case Hundred:
		return kind{"100 readings, by tenant, device", []string{"/tenant", "/device"}, nil}
	case Balanced:
		return kind{"chunk: Binnacle, balanced", []string{"/tenantShard", "/device"}, nil}
	}
	return kind{"chunk: Binnacle", []string{"/tenantShard", "/device"}, nil}
}

func (l Layout) keyOf(k keyed) []string {
	if of := l.kind().keyOf; of != nil {
		return of(k)
	}
	return []string{k.tenant, k.device}
}
