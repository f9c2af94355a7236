package worker

import (
	"time"
)

// relieve cuts the fullest bins while memory is short: this worker's part of what must go, less what is going already
// (rule W11). Before that it gives up what it knows of chains that have been idle for long.
func (w *Worker) relieve(now time.Time) {
	w.settle()
	over := w.memory.over()
	if over == 0 {
		return
	}
	full := w.memory.Full()
	over = int64(float64(over) * float64(w.counted) / float64(max(w.counted, w.memory.Used())))
	over -= int64(w.letters.bytes) + w.index.going
	if full {
		// Who waits for dead letters will go soon, as a rule; when nothing more can be taken, somebody else must.
		over += w.index.stuck
	}
	for over > 0 {
		c := w.index.fullest()
		if c == nil {
			return
		}
		w.ask(c, CutMemory, now)
		if at, ok := w.letters.first(); c.phase == stalled {
			continue
		} else if !full || !ok || at > c.bin.Through() {
			over -= int64(size(&c.bin))
		}
	}
}

// forgetIdle gives up what is known of chains that have been idle for so long that it is hardly worth its memory.
func (w *Worker) forgetIdle(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.index.idle.len() > 0 && now.After(w.index.idle.first().forgetAt()) {
		w.forget(w.index.idle.first())
	}
}
