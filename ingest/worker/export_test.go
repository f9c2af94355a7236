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

// CountWork counts from now on how often the Worker compares two of its chains or devices, or shows one to a head.
func CountWork(w *Worker) (count func() int) {
	n := 0
	for _, o := range []*ordered[*chain]{&w.index.wakes, &w.index.filling, &w.index.acting, &w.index.idle} {
		countLess(o, &n)
	}
	countLess(&w.looks, &n)
	countLess(&w.news, &n)
	looks := w.looked
	return func() int { return n + w.looked - looks }
}

func countLess[T any](o *ordered[T], n *int) {
	less := o.items.less
	o.items.less = func(a, b T) bool {
		*n++
		return less(a, b)
	}
}
