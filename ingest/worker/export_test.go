package worker

// HeldByParts adds up what Held should be: rows and dead letters, and what is known of devices and chains.
func HeldByParts(w *Worker) (rows, known int64) {
	sets := map[*columns]bool{}
	for _, t := range w.tenants {
		for _, d := range t.byID {
			known += int64(d.bytes())
			if c := d.seen.columns; c != nil && !sets[c] {
				sets[c] = true
				known += int64(c.bytes())
			}
			for _, c := range d.chains {
				rows += int64(c.bytes())
				known += chainBytes
			}
		}
	}
	for _, l := range w.letters.waiting.all() {
		rows += int64(l.bytes)
	}
	known += int64(w.names.Bytes())
	for _, o := range w.outdated {
		known += int64(o.names.Bytes())
	}
	return rows, known
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
	for _, o := range []*ordered[*chain]{&w.index.wakes, &w.index.filling, &w.index.lagging, &w.index.acting,
		&w.index.idle} {
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
