package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/sharding"
)

func (p *Provisioner) apply(ctx context.Context, s *Step) error {
	if s.Action == None {
		return nil
	}
	key := fmt.Sprint(s.Action, " ", s.Container, " ", s.Wanted)
	begun := p.started[key]
	if begun == nil {
		var err error
		if begun, err = p.cfg.Actions.Begin(ctx, s.action()); err != nil {
			return err
		}
	}
	err := p.change(ctx, s)
	if p.started[key] = begun; err == nil {
		delete(p.started, key)
	}
	return errors.Join(err, begun.End(ctx, err))
}

func verb(a Action) string { return fmt.Sprint("container ", a) }

func (s *Step) action() control.Action {
	tenant, _, _ := sharding.ParseContainer(s.Container)
	a := control.Action{Verb: verb(s.Action), Object: s.Container, Tenant: tenant,
		Detail: map[string]string{"tier": fmt.Sprint(s.Tier)}}
	switch s.Action {
	case Create, Scale:
		a.Detail["rus"] = strconv.Itoa(s.Wanted.RUs)
		a.Detail["autoscale"] = strconv.FormatBool(s.Wanted.Autoscale)
		if s.Action == Scale {
			a.Detail["rus_before"] = strconv.Itoa(s.Now.RUs)
		}
	}
	if s.Why != "" {
		a.Detail["why"] = s.Why
	}
	return a
}

// change does one step. Every order of operations here may be cut short: the next round continues from what it finds.
func (p *Provisioner) change(ctx context.Context, s *Step) error {
	var err error
	switch s.Action {
	case None:
		return nil
	case Create:
		err = p.create(ctx, s)
	case Scale:
		p.changed = append(p.changed, p.cfg.Now())
		p.scaled[s.Container] = p.cfg.Now()
		delete(p.known, s.Container)
		err = p.cfg.Containers.SetThroughput(ctx, s.Container, s.Wanted)
	case Keep:
		_, err = p.cfg.Directory.Mark(ctx, s.month, control.MonthAsked)
	case Expire:
		_, err = p.cfg.Directory.Mark(ctx, s.month, control.MonthExpired)
	case Drop:
		err = p.drop(ctx, s)
	}
	switch {
	case errors.Is(err, store.ErrAccountFull):
		s.Waits = accountFull
	case errors.Is(err, store.ErrChanged):
		s.Waits = "another process has changed it: the next round decides"
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", s.Action, s.Container, err)
	}
	return nil
}

// drop deletes a container (rule X4). The document of its month says so before: under the ETag of what was decided by,
// and for good. It is read once more before each attempt to delete, which ends before one of this name is made again.
func (p *Provisioner) drop(ctx context.Context, s *Step) (err error) {
	delete(p.known, s.Container)
	m := s.month
	if m.State != control.MonthDropping && !s.ofRollups() {
		if m, err = p.cfg.Directory.Mark(ctx, m, control.MonthDropping); err != nil {
			return err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, control.DropTime)
	defer cancel()
	if err := p.cfg.Directory.CheckUnchanged(bounded, m); err != nil {
		return err
	}
	if err := p.cfg.Containers.Delete(bounded, s.Container); err != nil || s.ofRollups() {
		return err
	}
	_, err = p.cfg.Directory.Mark(ctx, m, control.MonthDropped)
	return err
}

// create makes the container first and then records it: nothing waits for one that is made ahead of time, and one that
// was asked for is recorded already.
func (p *Provisioner) create(ctx context.Context, s *Step) error {
	delete(p.known, s.Container)
	if !slices.Contains(p.fresh, s.Container) {
		if err := p.cfg.Containers.Create(ctx, s.Container, s.Wanted); err != nil {
			return err
		}
	}
	if s.Tier == Base {
		return nil // no writer waits for it
	}
	return p.cfg.Directory.AskMonth(ctx, s.Container, "")
}

// report logs that no container is left for a step: what it has changed stands in its record.
func (p *Provisioner) report(ctx context.Context, s Step) {
	switch {
	case s.Waits == accountFull && s.ofRollups():
		p.cfg.Logger.WarnContext(ctx, "no container left in the account: queries of this month read chunks, not rollups",
			"container", s.Container, "most", p.cfg.Policy.MaxContainers)
	case s.Waits == accountFull:
		p.cfg.Logger.ErrorContext(ctx, "no container left in the account: readings of this month wait in memory",
			"container", s.Container, "most", p.cfg.Policy.MaxContainers)
	}
}
