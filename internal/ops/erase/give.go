package erase

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/stream"
)

// Giver gives orders of erasure. Only Gone has a default.
type Giver struct {
	Orders  *erasure.Orders
	Streams *stream.Streams
	Log     Log
	Gone    []string // ids of clusters that nobody publishes to or reads from any more
	Catalog store.Catalog
	// Keep keeps an order with its positions outside the store, and Drop takes a void one out (rule E-R11).
	Keep   func(ctx context.Context, o *erasure.Order) error
	Drop   func(ctx context.Context, id string) error
	Logger *slog.Logger
}

// Positions returns the positions that an order would have now.
func (g *Giver) Positions(ctx context.Context) ([]erasure.Position, error) {
	return Positions(ctx, g.Streams, g.Log, g.Gone...)
}

// Give announces an order, reads where the logs end, and acknowledges it. It returns the order once it is announced.
func (g *Giver) Give(ctx context.Context, order erasure.Order) (*erasure.Order, error) {
	given, err := g.Orders.Announce(ctx, order)
	if err != nil {
		return nil, err
	}
	positions, err := g.Positions(ctx)
	if err == nil && order.IsWhole() {
		err = Forget(ctx, g.Catalog, given)
	}
	if err == nil {
		err = g.Keep(ctx, given.Acknowledged(positions))
	}
	if err == nil {
		err = g.Orders.Acknowledge(ctx, given.ID, positions)
	}
	if err == nil {
		return given.Acknowledged(positions), nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if isVoid, _ := g.Orders.Void(ctx, given.ID); isVoid {
		if dropped := g.Drop(ctx, given.ID); dropped != nil {
			g.Logger.Warn("the void order stays in the topic of orders", "erasure", given.ID, "error", dropped)
		}
		return given, fmt.Errorf("nothing is erased: %w", err)
	}
	return given, err
}
