package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Containers manages the containers of the database binnacle. It is safe for any number of callers.
type Containers struct{ c *Client }

// AccountLimit is the most databases and containers of an account (Azure Cosmos DB docs, concepts-limits).
const AccountLimit = 500

// List returns the names of all containers of the database, in no order; none when the database is missing.
func (s *Containers) List(ctx context.Context) ([]string, error) {
	var names []string
	var token *string
	loop := paging{most: maxListPages}
	for {
		var page azcosmos.QueryContainersResponse
		_, err := s.inDatabase(ctx, call{operation: "container_list"}, func(ctx context.Context,
			db *azcosmos.DatabaseClient) (_ azcosmos.Response, err error) {
			page, err = db.NewQueryContainersPager(`SELECT * FROM c`,
				&azcosmos.QueryContainersOptions{ContinuationToken: token}).NextPage(ctx)
			return page.Response, err
		})
		if is(err, http.StatusNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list containers: %w", err)
		}
		for _, p := range page.Containers {
			names = append(names, p.ID)
		}
		if token = page.ContinuationToken; token == nil {
			return names, nil
		}
		if err := loop.next(len(page.Containers), len(page.Containers), *token); err != nil {
			return nil, fmt.Errorf("list containers: %w", err)
		}
	}
}

// IsServerless reports whether the account is serverless, as of the last look at the throughput of a container.
func (s *Containers) IsServerless() bool { return s.c.isServerless.Load() }

// Create makes a container of the layout that its name says. One that exists is left as it is. It fails with
// store.ErrAccountFull when the account has no container left.
func (s *Containers) Create(ctx context.Context, name string, t store.Throughput) error {
	return s.CreateAs(ctx, layoutOf(name), t)
}

// CreateAs makes a container of any layout; one that exists is left as it is. In a serverless account it gets no
// throughput.
func (s *Containers) CreateAs(ctx context.Context, l Layout, t store.Throughput) error {
	_, err := s.inDatabase(ctx, call{operation: "container_create", container: l.Name, changes: repeatable},
		func(ctx context.Context, db *azcosmos.DatabaseClient) (azcosmos.Response, error) {
			var options azcosmos.CreateContainerOptions
			if !t.Shared && !t.Serverless {
				p := throughput(t)
				options.ThroughputProperties = &p
			}
			resp, err := db.CreateContainer(ctx, l.properties(), &options)
			return resp.Response, err
		})
	switch {
	case err == nil, is(err, http.StatusConflict):
		return nil
	case isServerless(err) && !t.Serverless:
		return s.CreateAs(ctx, l, store.Throughput{Serverless: true})
	case s.c.cfg.Credential.Token != nil && is(err, http.StatusForbidden):
		return fmt.Errorf("create container %s: an identity can't make containers through the account: name the "+
			"subscription, "+
			"to go through Azure Resource Manager, or give the account key: %w", l.Name, err)
	case is(err, http.StatusBadRequest), is(err, http.StatusForbidden):
		// The service has no specific code for an account that is full.
		if full, countErr := s.full(ctx); countErr == nil && full {
			return fmt.Errorf("create container %s: %w: %w", l.Name, store.ErrAccountFull, err)
		}
	}
	return fmt.Errorf("create container %s: %w", l.Name, err)
}

func (s *Containers) full(ctx context.Context) (bool, error) {
	names, err := s.List(ctx)
	if err != nil {
		return false, err
	}
	return len(names)+1 >= AccountLimit, nil
}

// provisioned is what has throughput: a container or a database.
type provisioned interface {
	ReadThroughput(ctx context.Context, o *azcosmos.ThroughputOptions) (azcosmos.ThroughputResponse, error)
	ReplaceThroughput(ctx context.Context, t azcosmos.ThroughputProperties,
		o *azcosmos.ThroughputOptions) (azcosmos.ThroughputResponse, error)
}

func (s *Containers) inDatabase(ctx context.Context, to call, send func(ctx context.Context,
	db *azcosmos.DatabaseClient) (azcosmos.Response, error)) (store.Receipt, error) {
	return s.c.do(ctx, to, func(ctx context.Context, az *azcosmos.Client) (azcosmos.Response, error) {
		db, err := az.NewDatabase(store.Database)
		if err != nil {
			return azcosmos.Response{}, err
		}
		return send(ctx, db)
	})
}

// throughput asks for, or changes, the throughput of a container or of the database.
func (s *Containers) throughput(ctx context.Context, to call,
	send func(ctx context.Context, of provisioned) (azcosmos.ThroughputResponse, error)) error {
	_, err := s.inDatabase(ctx, to, func(ctx context.Context, db *azcosmos.DatabaseClient) (azcosmos.Response, error) {
		of := provisioned(db)
		if to.container != store.Database {
			container, err := db.NewContainer(to.container)
			if err != nil {
				return azcosmos.Response{}, err
			}
			of = container
		}
		resp, err := send(ctx, of)
		return resp.Response, err
	})
	return err
}

// ReadThroughput returns what is provisioned for a container, store.ErrNoContainer when it is missing; of the name
// store.Database what its containers share, store.ErrNoContainer when they share none. It takes three metadata
// requests, one more for the size of a container, and three more for one that shares.
func (s *Containers) ReadThroughput(ctx context.Context, name string) (store.ContainerState, error) {
	out, err := s.readThroughput(ctx, name)
	if none := errors.Is(err, store.ErrServerless); none || err == nil {
		s.c.isServerless.Store(none)
	}
	if out, err = serverless(name, out, err); name == store.Database || err != nil &&
		!errors.Is(err, store.ErrNoContainer) {
		return out, err
	}
	if err != nil {
		if _, ofDatabase := s.readThroughput(ctx, store.Database); ofDatabase != nil {
			return out, err
		}
		out = store.ContainerState{Name: name, Throughput: store.Throughput{Shared: true}}
	}
	out.GB, err = s.size(ctx, name)
	return out, err
}

// size returns the GB of data and index of a container, 0 where the service does not tell.
func (s *Containers) size(ctx context.Context, name string) (float64, error) {
	var usage string
	_, err := s.c.inContainer(ctx, call{operation: "container_read", container: name},
		func(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
			resp, err := container.Read(ctx, &azcosmos.ReadContainerOptions{PopulateQuotaInfo: true})
			if err == nil {
				usage = resp.RawResponse.Header.Get("x-ms-resource-usage")
			}
			return resp.Response, err
		})
	if err != nil {
		return 0, failed("size of container "+name, err)
	}
	return sizeOf(usage), nil
}

// sizeOf returns the GB that the usage of a container names in KB (Azure Cosmos DB docs, monitor-accounts).
func sizeOf(usage string) float64 {
	for field := range strings.SplitSeq(usage, ";") {
		if kb, ok := strings.CutPrefix(field, "collectionSize="); ok {
			n, _ := strconv.ParseFloat(kb, 64)
			return n / (1 << 20)
		}
	}
	return 0
}

func (s *Containers) readThroughput(ctx context.Context, name string) (store.ContainerState, error) {
	var found azcosmos.ThroughputResponse
	err := s.throughput(ctx, call{operation: "throughput_read", container: name},
		func(ctx context.Context, of provisioned) (_ azcosmos.ThroughputResponse, err error) {
			found, err = of.ReadThroughput(ctx, nil)
			return found, err
		})
	if err != nil {
		return store.ContainerState{}, failed("throughput of container "+name, err)
	}
	out := store.ContainerState{Name: name, Pending: found.IsReplacePending,
		Throughput: throughputIn(found.ThroughputProperties)}
	if found.MinThroughput != nil {
		out.MinRUs = int(*found.MinThroughput)
	}
	return out, nil
}

// throughputIn returns what properties say. An autoscale offer may carry the manual property as well.
func throughputIn(p *azcosmos.ThroughputProperties) (t store.Throughput) {
	if maximum, ok := p.AutoscaleMaxThroughput(); ok {
		return store.Throughput{RUs: int(maximum), Autoscale: true}
	}
	manual, _ := p.ManualThroughput()
	return store.Throughput{RUs: int(manual)}
}

// failed returns an error about an attempt on a container: store.ErrNoContainer where the service does not find it,
// store.ErrServerless where the account has no throughput.
func failed(what string, err error) error {
	switch {
	case is(err, http.StatusNotFound):
		err = store.ErrNoContainer
	case isServerless(err):
		err = store.ErrServerless
	}
	return fmt.Errorf("%s: %w", what, err)
}

// serverless returns what was read of a container, or of store.Database, in a serverless account: a container has no
// throughput, and a database none to share. Of any other account it is what was read.
func serverless(name string, read store.ContainerState, err error) (store.ContainerState, error) {
	switch {
	case !errors.Is(err, store.ErrServerless):
		return read, err
	case name == store.Database:
		return read, fmt.Errorf("%w: %w", store.ErrNoContainer, err)
	}
	return store.ContainerState{Name: name, Throughput: store.Throughput{Serverless: true}}, nil
}

// SetThroughput changes what is provisioned for a container, or under the name store.Database what is shared. Manual
// and autoscale can't be exchanged.
func (s *Containers) SetThroughput(ctx context.Context, name string, t store.Throughput) error {
	err := s.throughput(ctx, call{operation: "throughput_set", container: name, changes: repeatable},
		func(ctx context.Context, of provisioned) (azcosmos.ThroughputResponse, error) {
			return of.ReplaceThroughput(ctx, throughput(t), nil)
		})
	if err != nil {
		return failed(fmt.Sprintf("set throughput of container %s to %d RU/s", name, t.RUs), err)
	}
	return nil
}

// Delete drops a container and all that is in it. One that is missing is no error.
func (s *Containers) Delete(ctx context.Context, name string) error {
	_, err := s.c.inContainer(ctx, call{operation: "container_delete", container: name, changes: final},
		func(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
			resp, err := container.Delete(ctx, nil)
			return resp.Response, err
		})
	if err != nil && !is(err, http.StatusNotFound) {
		return fmt.Errorf("delete container %s: %w", name, err)
	}
	return nil
}

func throughput(t store.Throughput) azcosmos.ThroughputProperties {
	if t.Autoscale {
		return azcosmos.NewAutoscaleThroughputProperties(int32(t.RUs))
	}
	return azcosmos.NewManualThroughputProperties(int32(t.RUs))
}
