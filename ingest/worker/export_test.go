package worker

// HeldByParts adds up what Held should be.
func HeldByParts(w *Worker) int64 {
	n := 0
	for _, t := range w.tenants {
		for _, d := range t.byID {
			for _, c := range d.chains {
				n += c.bytes()
			}
		}
	}
	for _, l := range w.letters.waiting.all() {
		n += l.bytes
	}
	return int64(n)
}

// Devices is how many devices a Worker remembers.
func Devices(w *Worker) (n int) {
	for _, t := range w.tenants {
		n += len(t.byID)
	}
	return n
}
