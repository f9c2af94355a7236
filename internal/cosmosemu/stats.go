package cosmosemu

// PartitionStats is what one physical partition holds and has done since the Server was opened, or
// since ResetStats.
type PartitionStats struct {
	ID         string
	Min, Max   string  // effective partition keys, half-open
	Items      int64   // stored, expired ones that are not removed yet included
	Bytes      int64   // of their minified JSON without system properties
	Budget     float64 // RU/s; shared with other containers in a database with throughput of its own
	RUs        float64 // charged, modelled
	LastSecond float64 // charged in the last whole second of the Server's clock
	LastMinute float64 // charged in the last 60 whole seconds
	Peak       float64 // the most charged in one second
	Requests   int64   // admitted
	Throttled  int64   // answered 429
}
