package ops

import (
	"context"
	"errors"
	"fmt"
	"os"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// ChunkConfig sets what `binnacle chunk` prints.
type ChunkConfig struct {
	FileOrID string `arg:"" name:"file-or-id" help:"File with a chunk document, or id of a stored chunk."`

	Tenant string `help:"Tenant of the chunk. An id needs it."`
	Device string `help:"Device of the chunk. Default: all devices of the tenant are searched."`
	Rows   int    `help:"Number of rows to print." default:"10"`
}

// Run prints a chunk of a file or of the store as text.
func (cfg ChunkConfig) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	if cfg.Rows < 0 {
		return fmt.Errorf("--rows %d is negative", cfg.Rows)
	}
	doc, err := os.ReadFile(cfg.FileOrID)
	if err == nil {
		return printDocument(cfg, env, doc)
	}
	id, notID := chunk.ParseID(cfg.FileOrID)
	if notID != nil {
		return fmt.Errorf("%s: %w, and it is not a chunk id such as 20261120.1.00003.000017", cfg.FileOrID, Reason(err))
	}
	if cfg.Tenant == "" {
		return errors.New("--tenant is missing: a chunk id is unique only within a tenant's device")
	}
	found := 0
	err = cfg.find(ctx, client, id, func(doc []byte) error {
		found++
		return printDocument(cfg, env, doc)
	})
	if err == nil && found == 0 {
		return fmt.Errorf("no chunk %s of tenant %s in %s", id, cfg.Tenant, client.Endpoint())
	}
	return err
}

func printDocument(cfg ChunkConfig, env Env, doc []byte) error {
	c, err := chunk.Parse(doc)
	if err != nil {
		return fmt.Errorf("%s: %w", cfg.FileOrID, err)
	}
	return c.Print(env.Stdout, cfg.Rows)
}

// find calls yield with every chunk of the tenant that has the id: one for each device.
func (cfg ChunkConfig) find(ctx context.Context, client *cosmos.Client, id chunk.ID,
	yield func(doc []byte) error) error {
	snapshot, err := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents()}).Refresh(ctx)
	if err != nil {
		return fmt.Errorf("read the tenants in %s: %w", client.Endpoint(), err)
	}
	tenant, ok := snapshot.Tenant(cfg.Tenant)
	if !ok {
		return fmt.Errorf("no tenant %q in %s", cfg.Tenant, client.Endpoint())
	}
	day := telemetry.Range{From: id.Day.Start(), To: id.Day.End()}
	for _, visit := range tenant.Placement.VisitsOf(cfg.Device, day) {
		_, err := client.Chunks().Scan(ctx, store.Scan{Key: visit.Key, Range: visit.Range}, func(doc []byte) error {
			c, err := chunk.Parse(doc)
			if err != nil || c.Header.ID != id {
				return err
			}
			return yield(doc)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
