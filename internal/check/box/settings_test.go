package box_test

import (
	"math/rand/v2"
	"time"
)

// settings is which settings of processes change from life to life, as when one comes back in an older version of them.
type settings struct {
	// rnd is its own, so that a seed picks the same of everything else.
	rnd    *rand.Rand
	varies bool
}

// pickSettings picks whether processes come back with other settings.
func (b *box) pickSettings() settings {
	r := rand.New(rand.NewPCG(b.opts.seed, 44))
	return settings{r, b.has(otherSettings, r.IntN(6) == 0 && b.opts.years == 0 && b.about == "")}
}

// otherSettings lets each life of a process have settings of its own.
const otherSettings = "settings"

// ofIngester returns the settings of the next life of an ingester: with another hold, with a journal or without, and
// with another pace of the catalog.
func (s *settings) ofIngester(p profile) profile {
	if r := s.rnd; s.varies {
		p.hold = oneOf(r, p.hold, time.Second, time.Minute, 12*time.Hour)
		p.journal, p.writes = r.IntN(2) == 0, oneOf(r, 1, 4, 32)
		p.journalEvery = oneOf(r, time.Second, 10*time.Second, 15*time.Minute)
		p.catalogEvery = oneOf(r, -1, time.Minute, 7*24*time.Hour)
	}
	return p
}

// families returns which aggregates the rollups of the next maker have.
func (s *settings) families(usual string) string {
	if s.varies {
		return oneOf(s.rnd, usual, "", "L", "LFSM")
	}
	return usual
}
