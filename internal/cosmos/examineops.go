package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func (x *examiner) fresh() string {
	x.next++
	return x.id(fmt.Sprint("n", x.next))
}

// create creates documents of a size. Other operations read the first one with 1, 32 and 64 KB each.
func (x *examiner) create(bytes int) attempt {
	names := map[int]string{small1: "first", full32: "large", large64: "larger"}
	for _, b := range between {
		names[b] = fmt.Sprintf("%d KB", b>>10)
	}
	return func(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
		name := names[bytes]
		id := x.id(name)
		if name == "" {
			id = x.fresh()
		}
		resp, err := container.CreateItem(ctx, partitionKey(examined), x.document(id, bytes), nil)
		switch {
		case err != nil: // an attempt that is throttled is made again
		case name != "":
			delete(names, bytes)
		default:
			x.made = append(x.made, id)
		}
		return resp.Response, err
	}
}

// inTurn makes a document of either device in turn.
func (x *examiner) inTurn(bytes int) attempt {
	turn := 0
	return func(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
		key := examined
		if turn%2 == 1 {
			key = inTurn
		}
		resp, err := container.CreateItem(ctx, partitionKey(key), documentOf(key, x.fresh(), bytes), nil)
		if err == nil { // a throttled attempt is made again, for the same device
			turn++
		}
		return resp.Response, err
	}
}

func (x *examiner) read(name string, bytes int) attempt {
	return func(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
		id := x.id(name)
		resp, err := container.ReadItem(ctx, partitionKey(examined), id, nil)
		if err == nil && !kept(resp.Value, x.document(id, bytes)) {
			err = errors.New("the text that was read is not the text that was written")
		}
		return resp.Response, err
	}
}

// kept reports whether the columns of a document came back as they were: for the service they are text.
func kept(got, wrote []byte) bool {
	var a, b struct{ Time string }
	return json.Unmarshal(got, &a) == nil && json.Unmarshal(wrote, &b) == nil && a.Time == b.Time
}

func (x *examiner) replace(name string, bytes int) attempt {
	return func(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
		id := x.id(name)
		resp, err := container.ReplaceItem(ctx, partitionKey(examined), id, x.document(id, bytes), nil)
		return resp.Response, err
	}
}

func (x *examiner) query(sql string, key azcosmos.PartitionKey) attempt {
	return func(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
		page, err := container.NewQueryItemsPager(sql, key, nil).NextPage(ctx)
		return page.Response, err
	}
}

// feed reads all changes once, and from then on that there are none.
func (x *examiner) feed(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
	for loop := (paging{most: maxListPages, mostIdle: maxIdleFeed}); ; {
		o := azcosmos.ChangeFeedOptions{FeedRange: &everywhere}
		if x.mark != "" {
			o.Continuation = &x.mark
		}
		page, err := container.ReadChangeFeed(ctx, &o)
		x.mark = page.ContinuationToken
		if err != nil || len(page.Items) == 0 {
			return page.Response, err
		}
		if err := loop.next(len(page.Items), len(page.Items), x.mark); err != nil {
			return page.Response, err
		}
	}
}

// replaceUnchanged replaces a document on the condition that it is unchanged.
func (x *examiner) replaceUnchanged(name string, bytes int) attempt {
	return func(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
		id := x.id(name)
		read, err := container.ReadItem(ctx, partitionKey(examined), id, nil)
		if err != nil {
			return read.Response, err
		}
		resp, err := container.ReplaceItem(ctx, partitionKey(examined), id, x.document(id, bytes),
			&azcosmos.ItemOptions{IfMatchEtag: &read.ETag})
		return resp.Response, err
	}
}

func (x *examiner) upsert(bytes int) attempt {
	return func(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
		id := x.fresh()
		resp, err := container.UpsertItem(ctx, partitionKey(examined), x.document(id, bytes), nil)
		if err == nil {
			x.made = append(x.made, id)
		}
		return resp.Response, err
	}
}

// remove deletes the newest document that is there: it is of 1 KB.
func (x *examiner) remove(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
	last := len(x.made) - 1
	if last < 0 {
		return azcosmos.Response{}, errors.New("there is no document to delete")
	}
	resp, err := container.DeleteItem(ctx, partitionKey(examined), x.made[last], nil)
	if err == nil {
		x.made = x.made[:last]
	}
	return resp.Response, err
}

// feedOfOne makes a document and reads it from the change feed. One whose reading was refused is not made again.
func (x *examiner) feedOfOne(bytes int) attempt {
	waiting := false
	return func(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error) {
		if !waiting {
			made, err := container.CreateItem(ctx, partitionKey(examined), x.document(x.fresh(), bytes), nil)
			if err != nil {
				return made.Response, err
			}
			waiting = true
		}
		page, err := container.ReadChangeFeed(ctx, &azcosmos.ChangeFeedOptions{FeedRange: &everywhere, Continuation: &x.mark})
		if err != nil {
			return page.Response, err
		}
		x.mark, waiting = page.ContinuationToken, false
		if len(page.Items) != 1 {
			err = fmt.Errorf("the change feed has %d items of one", len(page.Items))
		}
		return page.Response, err
	}
}
