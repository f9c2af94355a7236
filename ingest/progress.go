package ingest

import (
	"time"

	"binnacle/binning"
	"binnacle/ingest/journal"
)

// progress is how far a partition is, as its goroutine published it last.
type progress struct {
	end, floor, journaled int64
	commit                journal.Commit // the commit that a takeover would load by
	bins                  int
	perSecond             float64 // records that are taken, while there are some; 0: not known
}

func (p *partition) publishProgress(floor int64) {
	r := &progress{
		end: p.worker.Bins().LogEnd(), floor: floor, journaled: floor, bins: p.worker.OpenBins(),
		commit: p.worker.JournalCommit(), perSecond: p.pace.perSecond(),
	}
	if p.in.cfg.Journal {
		r.journaled = p.worker.JournalFloor()
	}
	p.progress.Store(r)
}

// blockShare is what loading a row from the journal takes of the time of reading it in the log, at most.
const blockShare = 1. / 8

// replay estimates the work of a takeover that loads by a commit, at a pace of perSecond records a second.
func replay(p BinsPartition, c journal.Commit, perSecond float64) Replay {
	out := Replay{Records: p.End - p.Floor, Without: p.End - p.Floor}
	if c.To > c.From {
		out.Blocks, out.Records = c.To-c.From, p.End-c.F
	}
	if perSecond > 0 {
		loaded := min(out.Blocks*binning.BlockRows, out.Without-out.Records)
		out.Seconds = (float64(out.Records) + blockShare*float64(loaded)) / perSecond
		out.SecondsWithout = float64(out.Without) / perSecond
	}
	return out
}

// pace measures how fast records are taken while there are some.
type pace struct {
	records int64
	busy    time.Duration
}

const enoughRecords = 1 << 20

func (p *pace) add(records int, took time.Duration) {
	p.records += int64(records)
	p.busy += took
	if p.records > enoughRecords {
		p.records /= 2
		p.busy /= 2
	}
}

func (p *pace) perSecond() float64 {
	if p.busy <= 0 {
		return 0
	}
	return float64(p.records) / p.busy.Seconds()
}
