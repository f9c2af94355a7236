package loadtest

import (
	"strconv"
	"time"

	"binnacle/sharding"
)

// keyed is what a key is made of.
type keyed struct {
	tenant, device string
	id             string    // of a chunk
	at             time.Time // of the reading
}

// How many values suffixes have: those of the guidance's examples.
const (
	dateSuffixes = 15 // date_hash%15
	keySuffixes  = 20 // key_hash%20
	hourSuffixes = 24 // key_hour%24
	randomSuffix = 10
)

// suffixed returns a value with one of n suffixes, by the hash of something.
func suffixed(value, by string, n int) string {
	return value + "_" + strconv.Itoa(sharding.GroupOf(by, n))
}

// kind describes a layout.
func (l Layout) kind() kind {
	hierarchical := []string{"/tenant", "/device"}
	chunks := []string{"/tenantShard", "/device"}
	switch l {
	case ByDate:
		return kind{"reading, by date", []string{"/date"},
			func(k keyed) []string { return []string{k.at.Format(time.DateOnly)} }}
	case BySuffix:
		return kind{"reading, by date and suffix", []string{"/dateSuffix"},
			func(k keyed) []string { return []string{suffixed(k.at.Format(time.DateOnly), k.device, dateSuffixes)} }}
	case Tenant:
		return kind{"reading, by tenant", []string{"/tenant"}, func(k keyed) []string { return []string{k.tenant} }}
	case ByDevice:
		return kind{"reading, by tenant, device", hierarchical, nil}
	case Device:
		return kind{"reading, by device", []string{"/device"}, func(k keyed) []string { return []string{k.device} }}
	case DeviceHour:
		return kind{"reading, by device and hour", []string{"/deviceHour"},
			func(k keyed) []string { return []string{k.device + k.at.Format("_2006-01-02T15")} }}
	case KeyHash:
		return kind{"reading, by tenant, hash%20", []string{"/tenantHash"},
			func(k keyed) []string { return []string{suffixed(k.tenant, k.device, keySuffixes)} }}
	case KeyHour:
		return kind{"reading, by tenant, hour%24", []string{"/tenantHour"},
			func(k keyed) []string { return []string{k.tenant + "_" + strconv.Itoa(k.at.Hour()%hourSuffixes)} }}
	case Hundred:
		return kind{"100 readings, by tenant, device", hierarchical, nil}
	case Chunks:
		return kind{"chunk, by tenant, device", chunks, nil}
	case ChunksIn2:
		return kind{"chunk, random on level 2", chunks,
			func(k keyed) []string { return []string{k.tenant, suffixed(k.device, k.device+k.id, randomSuffix)} }}
	case ChunksIn1:
		return kind{"chunk, random on level 1", chunks,
			func(k keyed) []string { return []string{suffixed(k.tenant, k.device+k.id, randomSuffix), k.device} }}
	case Chunks16:
		return kind{"chunk, 16 fixed shards", chunks,
			func(k keyed) []string { return []string{suffixed(k.tenant, k.device, 16), k.device} }}
	case Chunks20:
		return kind{"chunk, 20 fixed shards", chunks,
			func(k keyed) []string { return []string{suffixed(k.tenant, k.device, keySuffixes), k.device} }}
	case Balanced:
		return kind{"chunk: Binnacle, balanced", chunks, nil}
	}
	return kind{"chunk: Binnacle", chunks, nil}
}

// keyOf returns the key that a layout gives a reading or a chunk.
func (l Layout) keyOf(k keyed) []string {
	if of := l.kind().keyOf; of != nil {
		return of(k)
	}
	return []string{k.tenant, k.device}
}
