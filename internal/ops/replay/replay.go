package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/text/progress"
)

// Run publishes the file, and waits for what ingesters decide of its records where Config.Group is set. It returns nil
// only when every line that could be parsed is acknowledged by all replicas in sync, and, without AllowRefused, every
// line could be parsed and no record was refused; the Summary is filled as far as it came. Readings of one device go to
// one Kafka partition, in their order. Run again, it publishes the same again: readings of the same instants, which are
// answered once.
func Run(ctx context.Context, cfg Config) (Summary, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	to, err := newCluster(cfg)
	if err != nil {
		return Summary{File: cfg.File}, cmp.Or(cfg.Validate(), err)
	}
	defer to.close()
	var refusals *refusals
	if cfg.Group != "" && !cfg.DeadLetters.DryRun && cfg.check() == nil {
		if refusals, err = followRefusals(ctx, to.client, cfg); err != nil {
			return Summary{File: cfg.File}, err
		}
		to.landed = refusals.landed
	}
	s, err := run(ctx, cfg, to)
	if err == nil && refusals != nil {
		s.Refusals, err = refusals.await(ctx)
	}
	if err == nil && !cfg.AllowRefused {
		err = s.refused()
	}
	return s, err
}

// refused returns an error that names the refused parts of the file, and the first reason.
func (s *Summary) refused() error {
	var faults []error
	if s.BadLines > 0 {
		faults = append(faults, fmt.Errorf("%s: lines that can't be read, and are not published: %d; "+
			"the first is line %d: %s", s.File, s.BadLines, s.BadLineNumbers[0], s.FirstBad))
	}
	if s.Refusals.Records > 0 {
		faults = append(faults, errors.New(s.Refusals.text(s.Records)))
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.Join(append(faults, errors.New("exit with 0 all the same: --allow-refused"))...)
}

func run(ctx context.Context, cfg Config, to producer) (Summary, error) {
	s := Summary{File: cfg.File}
	if err := cfg.check(); err != nil {
		return s, err
	}
	s.Format, _ = cfg.format() // check has found it
	grants, err := prepare(ctx, cfg, s.Format, &s)
	if err != nil || cfg.DeadLetters.DryRun {
		return s, err
	}
	return s, s.publish(ctx, cfg, to, grants)
}

// check reports every fault that can be seen before anything is published.
func (c Config) check() error {
	if err := c.Validate(); err != nil {
		return err
	}
	if t, err := openText(c.File); err != nil {
		return err
	} else if err := t.close(); err != nil {
		return err
	}
	format, err := c.format()
	if err != nil {
		return err
	}
	return c.validateFor(format)
}

// format returns the file's format by --format or its name.
func (c Config) format() (Format, error) {
	if c.Format != "" {
		return parseFormat(c.Format)
	}
	return formatByName(c.File)
}

// prepare reads the file once where that must be known before anything is published: how many milliseconds move its
// greatest time to now, and the ids of the backfill's grants by tenant.
func prepare(ctx context.Context, cfg Config, f Format, s *Summary) (grants map[string]string, err error) {
	if cfg.ShiftTo != "now" && cfg.Grant == nil {
		return nil, nil
	}
	if cfg.ShiftTo == "now" {
		latest := int64(math.MinInt64)
		err = each(ctx, cfg.as(f), "finding the times", func(e *element) error {
			if e.outcome == good {
				latest = max(latest, e.reading.Time)
			}
			return nil
		})
		if err != nil || latest == math.MinInt64 {
			return nil, err
		}
		s.Shift = cfg.Now().UnixMilli() - latest
	}
	if cfg.Grant == nil {
		return nil, nil
	}
	survey := newSurveyor()
	err = each(ctx, cfg.as(f), "finding the work", func(e *element) error {
		if e.outcome == good {
			e.reading.Time += s.Shift
			survey.add(e.reading)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	grants, work := map[string]string{}, survey.work()
	for _, tenant := range slices.Sorted(maps.Keys(work)) {
		if grants[tenant], err = cfg.Grant(ctx, work[tenant]); err != nil {
			return nil, err
		}
	}
	return grants, nil
}

func (c Config) as(f Format) Config {
	c.Format = string(f)
	return c
}

// each reads a file in the format of cfg from its start and calls f for every element. f may change it.
func each(ctx context.Context, cfg Config, what string, f func(*element) error) (err error) {
	t, err := openText(cfg.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	from, err := newSource(cfg, Format(cfg.Format), t)
	if err != nil {
		return err
	}
	bar := progress.NewBytes(cfg.Progress, what, t.size)
	defer bar.Clear()
	var e element
	for n := 0; ; n++ {
		if n%1024 == 0 {
			bar.Set(t.read)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		e = element{}
		switch err := from.next(&e); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := f(&e); err != nil {
			return err
		}
	}
}

// errGivenUp says that the publisher's own error has the reason.
var errGivenUp = errors.New("publishing has ended")

// publish publishes the elements of the file, and counts them.
func (s *Summary) publish(ctx context.Context, cfg Config, to producer, grants map[string]string) error {
	p, err := newPublisher(ctx, to)
	if err != nil {
		return err
	}
	wait := pace(cfg.Rate, cfg.Now)
	var key, value []byte
	read := each(ctx, cfg.as(s.Format), "publishing", func(e *element) error {
		e.reading.Time += s.Shift
		if e.outcome == good {
			if value = e.message(value[:0]); len(value) > maxMessage {
				e.refuse("its message takes more than %d bytes", maxMessage)
			}
		}
		if s.count(e); e.outcome != good {
			return nil
		}
		if err := wait(ctx, func() { p.flush() }); err != nil {
			return err
		}
		key = append(append(append(key[:0], e.reading.Tenant...), '/'), e.reading.Device...)
		if !p.add(message{key, value, grants[e.reading.Tenant]}) {
			return errGivenUp
		}
		return nil
	})
	if read == nil || ctx.Err() == nil && !errors.Is(read, errGivenUp) {
		p.flush()
	}
	written := p.close()
	s.Records = int(p.acked.Load())
	if written == nil && !errors.Is(read, errGivenUp) {
		return read
	}
	return errors.Join(written, notAcknowledged(s))
}

func notAcknowledged(s *Summary) error {
	return fmt.Errorf("%s: %d of at least %d records are acknowledged", s.File, s.Records, s.Readings)
}

// message appends what is published of a good element.
func (e *element) message(b []byte) []byte {
	if e.raw != nil {
		return append(b, e.raw...)
	}
	return decode.AppendJSON(b, e.reading)
}
