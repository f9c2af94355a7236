package cosmos

// HashOf is the effective partition key of a full key.
func HashOf(key ...string) string { return hashOf(key) }
