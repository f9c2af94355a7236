package provision

import (
	"context"
	"errors"
	"fmt"

	"binnacle/internal/store"
)

// apply does one step. Every order of operations here may be cut short: the next round goes on from what it finds.
func (p *Provisioner) apply(ctx context.Context, s *Step) error {
	var err error
	switch s.Action {
	case None:
		return nil
	case Create:
		err = p.create(ctx, s)
	case Scale:
		p.changed = append(p.changed, p.cfg.Now())
		delete(p.known, s.Container)
		err = p.cfg.Containers.SetThroughput(ctx, s.Container, s.Wanted)
	case Keep:
		err = p.cfg.Directory.Keep(ctx, s.Container)
	case Expire:
		err = p.cfg.Directory.Expire(ctx, s.Container)
	case Drop:
		delete(p.known, s.Container)
		if err = p.cfg.Containers.Delete(ctx, s.Container); err == nil {
			err = p.cfg.Directory.Dropped(ctx, s.Container)
		}
	}
	if errors.Is(err, store.ErrNoRoom) {
		s.Waits = noRoom
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", s.Action, s.Container, err)
	}
	return nil
}

// create makes the container first and then says so: nobody waits for one that is made ahead of time, and whoever
// asked has said so already.
func (p *Provisioner) create(ctx context.Context, s *Step) error {
	delete(p.known, s.Container)
	if err := p.cfg.Containers.Create(ctx, s.Container, s.Wanted); err != nil {
		return err
	}
	return p.cfg.Directory.AskMonth(ctx, s.Container)
}

// report logs what a step changed, and loudly what it could not: readings wait for a container that
// can't be made.
func (p *Provisioner) report(ctx context.Context, s Step) {
	switch {
	case s.Waits == noRoom:
		p.cfg.Logger.ErrorContext(ctx, "no container left in the account: readings of this month wait in memory",
			"container", s.Container, "most", p.cfg.Policy.MaxContainers)
	case s.Waits != "" || s.Action == None:
	default:
		p.cfg.Logger.InfoContext(ctx, "container", "action", s.Action, "container", s.Container, "tier", s.Tier,
			"rus_before", s.Now.RUs, "rus_after", s.after().RUs)
	}
}
