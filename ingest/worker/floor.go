package worker

import "binnacle/ingest/journal"

// Floor returns the offset that may be committed: everything below it is stored, or refused and acknowledged, and in
// the catalog (rule W7).
func (w *Worker) Floor() int64 {
	return lowest(w.bins.Log.Position, w.bins.Index.Floor, w.admission.Limits.Floor, w.writer.Publisher.Floor,
		w.bins.Updates.Floor,
		w.bins.Journaled.Times.Floor)
}

// MayCommit reports whether Floor and JournalFloor may be committed: not while a tail lies beyond the log (rule W9),
// and not once rows are lost here, which hold back neither.
func (w *Worker) MayCommit() bool {
	_, suspect := w.bins.Suspect()
	return !suspect && w.bins.Lost() == nil
}

// lowest returns the least of a position and the offsets that owners hold back.
func lowest(position int64, owners ...func() (offset int64, ok bool)) int64 {
	for _, floor := range owners {
		if at, ok := floor(); ok {
			position = min(position, at)
		}
	}
	return position
}

// JournalFloor returns the offset below which everything is stored, in an acknowledged block, or refused, and in the
// catalog (rule J1).
func (w *Worker) JournalFloor() int64 {
	if !w.bins.Journaled.On {
		return w.Floor()
	}
	return lowest(w.bins.Log.Position, w.bins.Journaled.Floor, w.bins.Journaled.Times.JournalFloor,
		w.admission.Limits.Floor,
		w.writer.Publisher.Floor, w.bins.Updates.Floor)
}

// JournalCommit returns the part of a commit of Floor that is about the journal.
func (w *Worker) JournalCommit() journal.Commit {
	return w.bins.Journaled.Blocks.Commit(w.writer.Cfg.Stream, w.JournalFloor())
}

// Flush appends every loose row to the journal, until Resume. JournalFloor shows how far the appends have come.
func (w *Worker) Flush() { w.appends.Flushing = w.bins.Journaled.On }
