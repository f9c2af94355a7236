// Package budget has what a physical partition, or the account, may spend in a second, and what it did spend: Budget
// admits and charges requests, Meter remembers seconds, Pace counts what may happen so often in five minutes. Time is
// an argument. It must not know of partitions, requests or answers.
package budget
