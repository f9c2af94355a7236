package cosmosemu

import (
	"encoding/json"
	"net/http"

	"binnacle/internal/cosmosemu/engine"
	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/cosmosemu/schema"
	"binnacle/internal/ru"
)

// metadata returns the answer about a database, container or offer that was read.
func (x *exchange) metadata(r engine.Resource) reply {
	return reply{status: http.StatusOK, body: r.Body, etag: r.ETag, charge: ru.MetadataRead, items: -1}
}

// made returns the answer about one that was made.
func made(r engine.Resource) reply {
	return reply{
		status: http.StatusCreated, body: r.Body, etag: r.ETag, charge: ru.MetadataCreate, lsn: r.LSN, items: -1,
	}
}

// changed returns the answer about one that was replaced or deleted.
func changed(status int, r engine.Resource) reply {
	return reply{status: status, body: r.Body, etag: r.ETag, charge: ru.MetadataChange, items: -1}
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
	return made(db), nil
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
	return changed(http.StatusNoContent, engine.Resource{}), nil
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
	return made(co.Resource()), nil
}

func (x *exchange) readContainer() (reply, error) {
	co, err := x.container()
	if err != nil {
		return reply{}, err
	}
	return x.metadata(co.Resource()), nil
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
	return changed(http.StatusOK, co), nil
}

func (x *exchange) deleteContainer() (reply, error) {
	if err := x.account.DeleteContainer(x.route.database, x.route.container); err != nil {
		return reply{}, err
	}
	return changed(http.StatusNoContent, engine.Resource{}), nil
}
