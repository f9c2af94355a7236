package read

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"binnacle/internal/store"
)

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

// headReadIncluding reads the heads once they have read what the context asks for.
func (r *Reader) headReadIncluding(ctx context.Context, ask store.HeadRequest) (headRead, error) {
	after := afterOf(ctx)
	s, err := r.headRead(ctx, ask)
	if err != nil || s.lacking(after) == nil {
		return s, err
	}
	if err := r.checkPartitions(ctx, ask.Tenant, after); err != nil {
		return s, err
	}
	bounded, cancel := waiting(ctx)
	defer cancel()
	for s.lacking(after) != nil {
		if late := r.awaitPositions(bounded, ask.Tenant, after); late != nil {
			if ctx.Err() != nil {
				return s, ctx.Err()
			}
			return s, &NotYetError{late}
		}
		if s, err = r.headRead(ctx, ask); err != nil {
			return s, err
		}
	}
	return s, nil
}

// checkPartitions returns an *UnknownPartitionError unless the log has the partitions of all ends, or does not answer.
func (r *Reader) checkPartitions(ctx context.Context, tenant string, ends []store.LogEnd) error {
	unknown := func() (out []string) {
		r.progress.mu.Lock()
		defer r.progress.mu.Unlock()
		for _, e := range ends {
			if p := (partition{e.Topic, e.Partition}); !r.progress.known[p] || r.isOthers(e.Topic, tenant) {
				out = append(out, p.String())
			}
		}
		return out
	}
	if r.cfg.Log == nil || unknown() == nil {
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
// A later head read may reach less: an ingester may have gone.
func (r *Reader) awaitPositions(ctx context.Context, tenant string, ends []store.LogEnd) (behind []string) {
	// A range without instants asks for positions alone.
	positions := store.HeadRequest{Tenant: tenant}
	for pauses := headPolls.Begin(); ; {
		s, err := r.headRead(ctx, positions)
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
