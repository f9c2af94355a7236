package heads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/query/read/piece"
)

// polls is the pauses between reads of heads while a query waits for positions.
var polls = retry.Policy{First: 2 * time.Millisecond, Max: 250 * time.Millisecond}

// waiting returns a context that ends after half of a query's time, so that a query that waits for heads can
// still read.
func waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, piece.TimeoutOf(ctx)/2)
}

// Await waits until heads have read the records that the context asks for, if any (WithAfter).
func (r *Reader) Await(ctx context.Context, tenant string) error {
	if len(afterOf(ctx)) == 0 {
		return nil
	}
	_, err := r.snapshotIncluding(ctx, store.HeadRequest{Tenant: tenant}) // without instants: for positions alone
	return err
}

// snapshotIncluding asks the heads once they have read what the context asks for.
func (r *Reader) snapshotIncluding(ctx context.Context, ask store.HeadRequest) (snapshot, error) {
	after := afterOf(ctx)
	s, err := r.snapshot(ctx, ask)
	if err != nil || s.lacking(after) == nil {
		return s, err
	}
	if err := r.checkPartitions(ctx, ask.Tenant, after); err != nil {
		return s, err
	}
	bounded, cancel := waiting(ctx)
	defer cancel()
	for err == nil && s.lacking(after) != nil {
		if late := r.awaitPositions(bounded, ask.Tenant, after); late != nil {
			return s, cmp.Or(ctx.Err(), error(&NotYetError{late}))
		}
		s, err = r.snapshot(ctx, ask)
	}
	return s, err
}

// checkPartitions returns an *UnknownPartitionError unless the log has the partitions of all ends, or does not answer.
func (r *Reader) checkPartitions(ctx context.Context, tenant string, ends []store.LogEnd) error {
	if r.cfg.Log == nil {
		return nil
	}
	unknown := func() []string {
		return r.progress.unknown(ends, func(topic string) bool { return r.isOthers(topic, tenant) })
	}
	if unknown() == nil {
		return nil
	}
	asked, cancel := context.WithTimeout(ctx, partitionsTimeout)
	defer cancel()
	found, err := r.cfg.Log.LogEnds(asked)
	if err != nil {
		return nil
	}
	r.progress.setPartitions(found, r.cfg.Now())
	if names := unknown(); names != nil {
		return &UnknownPartitionError{names}
	}
	return nil
}

// awaitPositions waits until heads have reached some ends, and until the tenant is registered that readings below them
// name. It returns what is missing of that when the time is over.
// A later read of heads may reach less: an ingester may have gone.
func (r *Reader) awaitPositions(ctx context.Context, tenant string, ends []store.LogEnd) (behind []string) {
	// A range without instants asks for positions alone.
	positions := store.HeadRequest{Tenant: tenant}
	for pauses := polls.Begin(); ; {
		s, err := r.snapshot(ctx, positions)
		if err == nil {
			if behind = s.lacking(ends); behind == nil {
				return nil
			}
		}
		if err != nil || pauses.Wait(ctx) != nil {
			if behind == nil {
				behind = []string{"no ingester has answered in time"}
			}
			return behind
		}
	}
}

// errNoLog says that a query asks for the end of the log, and there is no log to ask.
var errNoLog = errors.New("there is no log to ask")

// awaitLogEnd returns how far the log reaches, once the heads have come that far or half of the query's time is over.
// The error says that the log did not answer.
func (r *Reader) awaitLogEnd(ctx context.Context, tenant string) ([]store.LogEnd, error) {
	if r.cfg.Log == nil {
		return nil, errNoLog
	}
	ctx, cancel := waiting(ctx)
	defer cancel()
	ends, err := r.cfg.Log.LogEnds(ctx)
	if err != nil {
		return nil, err
	}
	r.progress.setPartitions(ends, r.cfg.Now())
	ends = slices.DeleteFunc(ends, func(e store.LogEnd) bool { return r.isOthers(e.Topic, tenant) })
	r.awaitPositions(ctx, tenant, ends) // whether they were reached shows in the answer of the heads
	return ends, nil
}

// Devices returns what heads hold of a tenant's devices. With an error some may be missing.
func (r *Reader) Devices(ctx context.Context, ask store.ListRequest) ([]store.HeadDevice, error) {
	held, err := r.cfg.Heads.Devices(ctx, ask)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		r.warn("devices of heads not read", err)
	}
	return held, err
}

// NotYetError says that an answer would not include the records that it must include.
type NotYetError struct{ Behind []string }

// Error returns what the answer lacks, a sentence each.
func (e *NotYetError) Error() string {
	return "the answer does not include what it was asked to include: " + strings.Join(e.Behind, "; ")
}

// UnknownPartitionError says that an answer was asked to include records of partitions that do not exist, or that are
// another tenant's.
type UnknownPartitionError struct{ Partitions []string }

// Error names the partitions.
func (e *UnknownPartitionError) Error() string {
	return "no such partition: " + strings.Join(e.Partitions, ", ")
}

type afterKey struct{}

// WithAfter returns a context for queries that include the records below some ends: they wait until heads have read so
// far, for at most half of their time, and then fail with a *NotYetError.
func WithAfter(ctx context.Context, ends []store.LogEnd) context.Context {
	return context.WithValue(ctx, afterKey{}, ends)
}

func afterOf(ctx context.Context) []store.LogEnd {
	ends, _ := ctx.Value(afterKey{}).([]store.LogEnd)
	return ends
}

// MustInclude returns a *NotYetError with what an answer lacks if the context asks it to include records: one of them
// may be what is missing.
func MustInclude(ctx context.Context, missing []string) error {
	if len(afterOf(ctx)) == 0 || len(missing) == 0 {
		return nil
	}
	return &NotYetError{missing}
}

// ParsePositions parses positions, topic/partition/offset, several with commas between them, and returns the ends
// behind them.
func ParsePositions(values []string, most int) (ends []store.LogEnd, err error) {
	for _, text := range strings.Split(strings.Join(values, ","), ",") {
		e, err := parsePosition(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		ends = append(ends, e)
	}
	if len(ends) > most {
		return nil, fmt.Errorf("has %d positions; at most %d are allowed", len(ends), most)
	}
	return ends, nil
}

func parsePosition(text string) (e store.LogEnd, err error) {
	parts := strings.Split(text, "/")
	if len(parts) == 3 && parts[0] != "" {
		e.Topic = parts[0]
		partition, wrong := strconv.ParseUint(parts[1], 10, 31)
		offset, err := strconv.ParseUint(parts[2], 10, 62)
		if wrong == nil && err == nil {
			e.Partition, e.End = int32(partition), int64(offset)+1
			return e, nil
		}
	}
	return e, fmt.Errorf("%.100q is not a position; allowed is topic/partition/offset, such as telemetry/3/812", text)
}
