package sharding

// Pin is the decision of an operator on a tenant's placement. The zero Pin leaves all to the balancer.
type Pin struct {
	// Keep keeps the epochs as they are.
	Keep bool `json:"keep,omitempty"`
	// Keys is the number of first-level keys; 0 leaves it to the balancer.
	Keys int `json:"keys,omitempty"`
}

// EpochChange is an epoch of a tenant that the balancer has decided, with the reason.
type EpochChange struct {
	Tenant string `json:"tenant"`
	Epoch  Epoch  `json:"epoch"`
	Reason string `json:"reason"`

	// Share is the tenant's share of the load of the container.
	Share float64 `json:"share"`
	// KeysBefore and KeysAfter count first-level keys of groups.
	KeysBefore int `json:"keysBefore"`
	KeysAfter  int `json:"keysAfter"`
	// Moved counts the groups that move to another physical partition.
	Moved int `json:"moved"`
	// Devices counts the devices that get several keys for the first time.
	Devices int `json:"devicesSpread"`
	// Before and After are the load of the container's hottest partition over the mean, without any change and with all.
	Before float64 `json:"hottestBefore"`
	After  float64 `json:"hottestAfter"`
}
