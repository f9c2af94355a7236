package schema

import (
	"encoding/json"

	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"
)

// maxComputed is the most computed properties of a container (Azure Cosmos DB docs, computed-properties).
const maxComputed = 20

// computed reads the computed properties of a container. It returns nil when there are none.
func computed(raw json.RawMessage) (*sql.Cache, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var list []struct {
		Name  string `json:"name"`
		Query string `json:"query"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, refusal.BadRequest("One of the specified inputs is invalid: computedProperties is not a list of " +
			"objects with name and query")
	}
	if len(list) > maxComputed {
		return nil, refusal.BadRequest("a container has at most %d computed properties, not %d", maxComputed, len(list))
	}
	out := &sql.Cache{Computed: sql.Computed{}}
	for _, p := range list {
		switch {
		case p.Name == "" || p.Name == "id" || IsSystem(p.Name) || out.Computed[p.Name] != nil:
			return nil, refusal.BadRequest("the name %q of a computed property is empty, reserved or used twice", p.Name)
		case !out.Computed.Add(p.Name, p.Query):
			return nil, refusal.BadRequest("the query of the computed property %s is not SELECT VALUE of an expression "+
				"over one item, FROM that item", p.Name)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return out, nil
}
