package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/engine"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
)

// metadata returns the answer about a database, container or offer that was read.
func (x *exchange) metadata(r engine.Resource) reply {
	return x.within(r, reply{status: http.StatusOK, charge: ru.MetadataRead})
}

func (x *exchange) made(r engine.Resource) reply {
	return x.within(r, reply{status: http.StatusCreated, charge: ru.MetadataCreate, lsn: r.LSN})
}

// changed returns the answer about one that was replaced or deleted.
func (x *exchange) changed(status int, r engine.Resource) reply {
	return x.within(r, reply{status: status, charge: ru.MetadataChange})
}

// within fills an answer with the resource, and with where it is: of that Java's client makes the path of a container.
func (x *exchange) within(r engine.Resource, rep reply) reply {
	rep.body, rep.etag, rep.items = r.Body, r.ETag, -1
	if r.In != "" {
		rep.rid, rep.path = r.In, "dbs/"+x.route.database
	}
	return rep
}

func (x *exchange) decodeBody(into any) error {
	body, err := x.readBody(nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return refusal.BadRequest("the body is not the JSON that is expected here: %v", err)
	}
	return nil
}

func (x *exchange) createDatabase() (reply, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := x.decodeBody(&in); err != nil {
		return reply{}, err
	}
	t, err := headerThroughput(x.request.Header)
	if err != nil {
		return reply{}, err
	}
	db, err := x.account.CreateDatabase(in.ID, t, x.now)
	if err != nil {
		return reply{}, err
	}
	return x.made(db), nil
}

func (x *exchange) readDatabase() (reply, error) {
	db, err := x.account.Database(x.route.database)
	if err != nil {
		return reply{}, err
	}
	return x.metadata(db), nil
}

func (x *exchange) deleteDatabase() (reply, error) {
	if err := x.account.DeleteDatabase(x.route.database); err != nil {
		return reply{}, err
	}
	return x.changed(http.StatusNoContent, engine.Resource{}), nil
}

func (x *exchange) createContainer() (reply, error) {
	var in schema.JSON
	if err := x.decodeBody(&in); err != nil {
		return reply{}, err
	}
	t, err := headerThroughput(x.request.Header)
	if err != nil {
		return reply{}, err
	}
	co, err := x.account.CreateContainer(x.route.database, in, t, x.now)
	if err != nil {
		return reply{}, err
	}
	return x.made(co.Resource()), nil
}

func (x *exchange) readContainer(co *engine.Container) (reply, error) {
	rep := x.metadata(co.Resource())
	h := x.request.Header
	if isTrue(h.Get("X-Ms-Documentdb-Populatequotainfo")) {
		rep.header = http.Header{
			"X-Ms-Documentdb-Collection-Index-Transformation-Progress": {"100"},
			"X-Ms-Resource-Usage": {usage(co.Stats(x.now))},
		}
	}
	if isTrue(h.Get("X-Ms-Documentdb-Populatepartitionstatistics")) {
		body, err := withStatistics(rep.body, co.Stats(x.now))
		if err != nil {
			return reply{}, err
		}
		rep.body = body
	}
	return rep, nil
}

// usage returns how much a container holds, as the header of that name says it.
func usage(parts []engine.Stats) string {
	var items, bytes int64
	for _, p := range parts {
		items, bytes = items+p.Items, bytes+p.Bytes
	}
	return fmt.Sprintf("functions=0;storedProcedures=0;triggers=0;documentsCount=%d;documentsSize=%d;collectionSize=%d;",
		items, bytes>>10, bytes>>10)
}

// withStatistics adds what each physical partition holds to the document of a container.
func withStatistics(doc []byte, parts []engine.Stats) ([]byte, error) {
	type statistics struct {
		ID    string   `json:"id"`
		KB    int64    `json:"sizeInKB"`
		Items int64    `json:"documentCount"`
		Keys  []string `json:"partitionKeys"` // the largest: not known here
	}
	list := make([]statistics, len(parts))
	for i, p := range parts {
		list[i] = statistics{p.ID, p.Bytes >> 10, p.Items, []string{}}
	}
	text, err := json.Marshal(list)
	return append(append(append(doc[:len(doc)-1], `,"statistics":`...), text...), '}'), err
}

func (x *exchange) replaceContainer() (reply, error) {
	var in schema.JSON
	if err := x.decodeBody(&in); err != nil {
		return reply{}, err
	}
	if in.ID != x.route.container {
		return reply{}, refusal.BadRequest("the id %q of the body is not that of the container %q", in.ID, x.route.container)
	}
	co, err := x.account.ReplaceContainer(x.route.database, in, x.request.Header.Get("If-Match"), x.now)
	if err != nil {
		return reply{}, err
	}
	return x.changed(http.StatusOK, co), nil
}

func (x *exchange) deleteContainer() (reply, error) {
	if err := x.account.DeleteContainer(x.route.database, x.route.container); err != nil {
		return reply{}, err
	}
	return x.changed(http.StatusNoContent, engine.Resource{}), nil
}
