package heat

import "binnacle/sharding"

// Total returns the RU of all devices.
func (w *Weights) Total() (rus float64) {
	for _, d := range w.Devices {
		rus += d.RUs
	}
	for _, r := range w.Rest {
		rus += r
	}
	return rus
}

// Groups returns the RU by hash mod n, as devices are placed on n slots. Those in buckets are placed as
// sharding.AddBuckets does.
func (w *Weights) Groups(n int) []float64 {
	out := make([]float64, n)
	for _, d := range w.Devices {
		out[sharding.GroupOf(d.Device, n)] += d.RUs
	}
	sharding.AddBuckets(out, w.Rest)
	return out
}
