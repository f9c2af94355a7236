package box_test

// plantedJournal are faults of the journal (rules J1 to J8) that takeovers show.
var plantedJournal = []planted{
	{name: "J1 names hold back the source alone", file: "ingest/worker/floor.go", with: string(journaled),
		old: "\t\tw.writer.Publisher.Floor, w.bins.Updates.Floor)\n}\n\n// JournalCommit",
		new: "\t\tw.writer.Publisher.Floor)\n}\n\n// JournalCommit"},
	{name: "J6 the blocks of a failed append count", file: "ingest/write/append.go", with: string(journaled),
		old: "\t\t\tc.Journaled.Under = c.Journaled.Through\n", new: ""},
	{name: "J6 a lost end is not appended again", file: "ingest/write/append.go", with: string(journaled),
		old: "\t\tj.again()\n", new: ""},
	{name: "J8 times of a failed append are forgotten", file: "ingest/write/append.go", with: string(journaled),
		old: "j.index.Times.Failed(s.times)\n", new: ""},
	{name: "J8 times of a lost end are forgotten", file: "ingest/bins/times.go", with: string(journaled),
		old: "\t\tx.owe(d, d.carried)\n\t}\n}\n\n// TimesRecord", new: "\t}\n}\n\n// TimesRecord"},
	{name: "J8 times are not renewed", file: "ingest/bins/times.go", with: string(journaled),
		old: "o := x.owe(d, d.carried)\n\t\to.blocks = append(o.blocks, d.carriedAt)\n",
		new: "x.blocks.Remove(d.carriedAt)\n"},
	{name: "J8 a record replaces times that it lacks", file: "ingest/bins/times.go", with: string(journaled),
		old: "if d.carriedAt != noOffset && !o.Times.contains(d.carried) {", new: "if false {"},
	{name: "R5 loaded rows look newer", file: "ingest/bins/chain.go", with: string(journaled),
		old: "c.Phase, c.First, c.loaded = filling, bin.First(), bin.Through()",
		new: "c.Phase, c.First = filling, bin.First()"},
}
