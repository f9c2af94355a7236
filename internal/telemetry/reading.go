package telemetry

// Reading is what one device reported at one instant.
type Reading struct {
	Tenant string
	Device string
	Time   int64 // event time, milliseconds since 1970 UTC
	Fields []Field
	Labels Labels // part of the series
	Tags   Labels // describe the device; newest wins
}

// Field is one named value of a reading. The fields of a Reading are sorted by metric, with each metric once.
type Field struct {
	Metric string
	Value  Value
}

// Position says where a reading came from: the Kafka record at an offset of a partition of a stream.
// Positions of one series are ordered by stream, then partition, then offset; the higher one is newer.
type Position struct {
	Stream    uint32
	Partition int32
	Offset    int64
}

// Range is a half-open range of event times in milliseconds since 1970 UTC: From <= t < To.
type Range struct{ From, To int64 }

// Contains reports whether t lies in r.
func (r Range) Contains(t int64) bool { return r.From <= t && t < r.To }

// Empty reports whether no instant lies in r.
func (r Range) Empty() bool { return r.From >= r.To }
