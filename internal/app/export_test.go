package app

import (
	"context"
	"net"
	"runtime/debug"

	"binnacle/internal/cosmos"
	"binnacle/internal/ops"
)

// Served is what a test gives to the roles of `binnacle serve`: an account, and listeners.
type Served struct {
	Account    cosmos.Config
	Heads, API net.Listener
}

// Serve runs all roles until stop is called.
func (cfg ServeConfig) Serve(ctx context.Context, env ops.Env, with Served) (stop func(), err error) {
	r, p := cfg.roles(), newProcess(env)
	stop = func() {
		p.life.stop()
		p.close()
	}
	client, err := p.openClient(with.Account)
	if err != nil {
		return stop, err
	}
	o := &openRoles{process: p, roles: r, headsAt: listener{p, "heads", with.Heads}, api: listener{p, "api", with.API}}
	if err := o.openOn(ctx, client); err != nil {
		return stop, err
	}
	p.start()
	return stop, nil
}

// MemoryLimit returns the memory limit that `binnacle serve` sets in a container.
func (cfg ServeConfig) MemoryLimit(container string) int64 {
	before := debug.SetMemoryLimit(-1)
	cfg.roles().limitMemory(container)
	return debug.SetMemoryLimit(before)
}
