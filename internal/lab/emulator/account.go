package emulator

import (
	"encoding/json"
	"net/http"
)

type locationJSON struct {
	Name     string `json:"name"`
	Endpoint string `json:"databaseAccountEndpoint"`
}

// readAccount answers with the account document. Its endpoint is how the client has reached us, since
// SDKs send everything after it there.
func (x *exchange) readAccount() (reply, error) {
	endpoint := x.advertise
	if endpoint == "" {
		scheme := x.request.URL.Scheme // set in process only
		switch {
		case scheme != "":
		case x.request.TLS != nil:
			scheme = "https"
		default:
			scheme = "http"
		}
		endpoint = scheme + "://" + x.request.Host + "/"
	}
	locations := []locationJSON{{x.cfg.Region, endpoint}}
	consistency := map[string]any{"defaultConsistencyLevel": x.cfg.Consistency}
	body, err := json.Marshal(map[string]any{
		"_self": "", "id": x.request.Host, "_rid": x.request.Host,
		"media": "//media/", "addresses": "//addresses/", "_dbs": "//dbs/",
		"writableLocations": locations, "readableLocations": locations,
		"enableMultipleWriteLocations": false,
		"userReplicationPolicy": map[string]any{
			"asyncReplication": false, "minReplicaSetSize": 3, "maxReplicasetSize": 4,
		},
		"userConsistencyPolicy":   consistency,
		"systemReplicationPolicy": map[string]any{"minReplicaSetSize": 3, "maxReplicasetSize": 4},
		"readPolicy":              map[string]any{"primaryReadCoefficient": 1, "secondaryReadCoefficient": 1},
		"queryEngineConfiguration": `{"maxJoinsPerSqlQuery":10,"maxSqlQueryInputLength":524288,"maxUdfRefPerSqlQuery":10,` +
			`"sqlAllowNonFiniteNumbers":false}`,
	})
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: body, items: -1, gateway: true}, nil
}
