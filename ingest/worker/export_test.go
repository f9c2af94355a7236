package worker

// HeldByParts adds up what Held should be.
func HeldByParts(w *Worker) int64 {
	n := 0
	for _, c := range w.chains {
		n += c.bytes()
	}
	for i := range w.letters.waiting {
		n += w.letters.waiting[i].bytes
	}
	return int64(n)
}

// Devices is how many devices a Worker remembers.
func Devices(w *Worker) int { return len(w.devices) }
