package box_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/worker"
	"binnacle/internal/stream"
)

// slot is an ingester's place: an ordinal, which one process has as a rule, and two where one is believed to be dead.
type slot struct {
	ordinal int
	lives   []*ingester // that are alive, the newest last
	births  int
	// doomed dies at the event doomedAt.
	doomed   *ingester
	doomedAt int
	// endsAt is the event at which all lives are killed, 0 for none.
	endsAt int
	// restartAt is the event at which an empty slot gets its next life, 0 for none.
	restartAt int
}

// doom lets an ingester die soon after a write that did not plainly succeed: what it makes of that is lost half-way.
func (b *box) doom(c *call) {
	for _, s := range b.slots {
		for _, x := range s.lives {
			if x.actor == c.actor && b.about != doubled && b.events > s.doomedAt+300 && b.rnd.IntN(3) == 0 {
				s.doomed, s.doomedAt = x, b.events+b.rnd.IntN(100)
			}
		}
	}
}

// actDoomed kills a doomed ingester, or starts the next life of one that is dead. It reports whether it did.
func (b *box) actDoomed() bool {
	for _, s := range b.slots {
		switch i := slices.Index(s.lives, s.doomed); {
		case s.doomed != nil && b.events >= s.doomedAt:
			if s.doomed = nil; i >= 0 && b.kills() {
				b.kill(s, i)
				return true
			}
		case s.endsAt > 0 && b.events >= s.endsAt:
			for s.endsAt = 0; len(s.lives) > 0; {
				b.kill(s, 0)
			}
			return true
		case s.restartAt > 0 && b.events >= s.restartAt:
			if s.restartAt = 0; len(s.lives) == 0 {
				b.startIngester(s, false)
				return true
			}
		}
	}
	return false
}

// kill kills a life of a slot. Mostly another one begins soon.
func (b *box) kill(s *slot, i int) {
	x := b.bury(s, i)
	b.event("box", "kill", x.name, "")
	b.die(x.actor)
	if b.rnd.IntN(4) > 0 {
		s.restartAt = b.events + 1 + b.rnd.IntN(60)
	}
}

// ingester is one life of an ingester.
type ingester struct {
	*actor
	in *ingest.Ingester
	// begun is how much had been acknowledged when its process began.
	begun int64
	runs  bool
}

// startIngester starts a process in a slot. A settled one stores all it has soon.
func (b *box) startIngester(s *slot, settled bool) {
	p, l := b.settings.ofIngester(b.profile), b.limiting
	s.births++
	a := b.newActor(fmt.Sprintf("ingest%d.%d", s.ordinal, s.births))
	nonce := uint64(a.number) << 32
	cfg := ingest.Config{
		Config: worker.Config{Register: true, Past: -1, Hold: p.hold, JournalEvery: p.journalEvery, MaxWrites: p.writes,
			CommitEvery: time.Second + 7*time.Microsecond, CatalogEvery: p.catalogEvery, Limits: l.byDefault,
			FairAfter: l.fairAfter, HeldFor: l.heldFor, RegisterRate: l.registerRate,
			Nonce: func() uint64 { nonce += 1 << 16; return nonce }}, // a head adds its generation
		Kafka: a.cluster(), Topics: []string{topic}, DeadLetters: letters,
		Assign:     fmt.Sprintf("%d/%d", s.ordinal, len(b.slots)),
		UseJournal: "on", DrainBudget: 2*time.Second + 13*time.Microsecond, WatchEvery: 5*time.Second + 11*time.Microsecond,
		Now: a.now, Logger: a.logger(),
	}
	if b.grouped {
		cfg.Assign, cfg.Group, cfg.Session = "", "ingesters", session
	}
	if !p.journal {
		cfg.UseJournal = "off"
	}
	if settled {
		cfg.Hold, cfg.JournalEvery = 10*time.Second, time.Second
	}
	if b.about == doubled { // takeovers happen in the moment of a commit
		cfg.CommitEvery /= 10
	}
	b.spills(a, &cfg)
	x := &ingester{actor: a, begun: b.oracle.acknowledged()}
	run := func(ctx context.Context) {
		x.runs = true
		if err := x.in.Run(ctx); err != nil {
			b.fail("%s ended: %v", a.name, err)
		}
		x.runs = false
		b.stir()
	}
	stores := ingest.Stores{Chunks: chunks{a}, Directory: a.directory(run), Catalog: pages{a},
		Streams: stream.NewStreams(documents{a}), DeadLetters: ingest.NewTopicDeadLetterWriter(cfg.Kafka.Topic(letters))}
	var err error
	if x.in, err = ingest.New(cfg, stores); err != nil {
		panic(err)
	}
	b.mu.Lock()
	s.lives = append(s.lives, x)
	b.mu.Unlock()
	b.event("box", "start", a.name, "")
}

// bury removes a life from its slot.
func (b *box) bury(s *slot, i int) *ingester {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := s.lives[i]
	s.lives = append(s.lives[:i:i], s.lives[i+1:]...)
	return x
}

// stop ends a life in order: it writes, commits and leaves.
func (b *box) stop(x *ingester) {
	b.event("box", "stop", x.name, "")
	b.leaving = append(b.leaving, x)
	x.end()
}

// actIngester kills an ingester, ends one, or starts one although another may live.
func (b *box) actIngester() {
	s := b.slots[b.rnd.IntN(len(b.slots))]
	switch n := len(s.lives); {
	case n == 0:
		b.startIngester(s, false)
	case n > 1 || b.rnd.IntN(3) > 0:
		i := b.rnd.IntN(n)
		if b.rnd.IntN(3) == 0 && !b.opts.without["shutdowns"] {
			b.stop(b.bury(s, i))
			s.restartAt = b.events + 1 + b.rnd.IntN(60)
			return
		}
		b.kill(s, i)
	default:
		b.startIngester(s, false)
	}
}
