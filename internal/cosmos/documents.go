package cosmos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"binnacle/internal/store"
)

// documents is store.Documents over a container with the kind as its key. Its operations begin with the container's
// name.
type documents struct {
	c         *Client
	container string
	key       string // name of the property with the kind, by which documents are partitioned
	low       bool
}

// Create fails with store.ErrExists if there is one of that kind and id; it returns the ETag.
func (d *documents) Create(ctx context.Context, doc store.Document) (string, error) {
	return d.write(ctx, "create", doc, creating)
}

func (d *documents) write(ctx context.Context, operation string, doc store.Document,
	request func(body []byte) itemRequest) (etag string, err error) {
	body, err := d.withIdentity(doc)
	if err != nil {
		return "", err
	}
	resp, _, err := d.c.put(ctx, d.to(operation, doc.Kind), request(body))
	switch {
	case is(err, http.StatusConflict):
		err = store.ErrExists
	case doc.ETag != "" && (is(err, http.StatusPreconditionFailed) || is(err, http.StatusNotFound)):
		err = store.ErrChanged
	}
	if err != nil {
		return "", fmt.Errorf("%s %s document %s: %w", operation, doc.Kind, doc.ID, err)
	}
	return string(resp.ETag), nil
}

// Replace fails with store.ErrChanged if it is not the one of doc's ETag any more; it returns the new one.
func (d *documents) Replace(ctx context.Context, doc store.Document) (string, error) {
	return d.write(ctx, "replace", doc, func(body []byte) itemRequest { return replacing(doc.ID, doc.ETag, body) })
}

// Read reports false if the document does not exist.
func (d *documents) Read(ctx context.Context, kind, id string) (store.Document, bool, error) {
	resp, _, err := d.c.item(ctx, d.to("read", kind), reading(id, nil))
	if is(err, http.StatusNotFound) {
		return store.Document{}, false, nil
	}
	var doc store.Document
	if err == nil {
		doc, err = d.withoutIdentity(resp.Value)
	}
	if err != nil {
		return doc, false, fmt.Errorf("read %s document %s: %w", kind, id, err)
	}
	return doc, true, nil
}

func (d *documents) List(ctx context.Context, kind string) ([]store.Document, error) {
	var out []store.Document
	var usage store.Usage
	err := d.c.each(ctx, d.to("list", kind), query{sql: `SELECT * FROM c ORDER BY c.id ASC`}, &usage, nil,
		func(item []byte) error {
			doc, err := d.withoutIdentity(item)
			out = append(out, doc)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("list %s documents: %w", kind, err)
	}
	return out, nil
}

func (d *documents) to(operation, kind string) call {
	return call{operation: d.container + "_" + operation, container: d.container, key: []string{kind}, low: d.low}
}

// withIdentity puts id and kind before the properties of the body.
func (x *documents) withIdentity(d store.Document) ([]byte, error) {
	body := bytes.TrimSpace(d.Body)
	if len(body) < 2 || body[0] != '{' || !json.Valid(body) {
		return nil, fmt.Errorf("%s document %s: the body is no JSON object", d.Kind, d.ID)
	}
	identity, err := json.Marshal(map[string]string{"id": d.ID, x.key: d.Kind})
	if err != nil {
		return nil, err
	}
	rest := bytes.TrimSpace(body[1:])
	if rest[0] == '}' {
		return identity, nil
	}
	identity[len(identity)-1] = ','
	return append(identity, rest...), nil
}

// withoutIdentity takes id, kind and the properties of the service, which begin with an underscore, out of an item.
func (x *documents) withoutIdentity(item []byte) (store.Document, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(item, &all); err != nil {
		return store.Document{}, err
	}
	var d store.Document
	for name, into := range map[string]*string{"id": &d.ID, x.key: &d.Kind, "_etag": &d.ETag} {
		if err := json.Unmarshal(all[name], into); err != nil {
			return store.Document{}, fmt.Errorf("property %s of %.100s: %w", name, item, err)
		}
	}
	var seconds int64
	if err := json.Unmarshal(all["_ts"], &seconds); err != nil {
		return store.Document{}, fmt.Errorf("property _ts of %.100s: %w", item, err)
	}
	d.Modified = time.Unix(seconds, 0)
	for name := range all {
		if name == "id" || name == x.key || strings.HasPrefix(name, "_") {
			delete(all, name)
		}
	}
	body, err := json.Marshal(all)
	d.Body = body
	return d, err
}
