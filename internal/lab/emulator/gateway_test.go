package emulator_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// over is the SDK over TCP, through one of the gateways.
func over(t testing.TB, h http.Handler) *azcosmos.Client {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	cred, err := azcosmos.NewKeyCredential(emulator.Key)
	require.NoError(t, err)
	c, err := azcosmos.NewClientWithKey(web.URL, cred, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: web.Client(), Retry: policy.RetryOptions{MaxRetries: -1},
	}})
	require.NoError(t, err)
	return c
}

// The ids of azcosmos's own tests, and what both gateways answer to reads by path.
func TestGateways(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	ctx, pk := context.Background(), key("s", "d")
	routing := create(t, over(t, s.RoutingGateway()), hierarchical("chunks"), 400)
	db, err := over(t, s.ComputeGateway()).NewDatabase("db")
	require.NoError(t, err)
	compute, err := db.NewContainer("chunks")
	require.NoError(t, err)
	for id, routed := range map[string]int{
		"plain": 0, "a b": 0, " a": 0, "a,=.:~+-@()^${}[]!_": 0, "a?b": 0, "鱀": 0,
		"a ": 401, "a%20": 401, "%E9": 401, "a/b": 401, `a\b`: 401, "a#b": 401,
		"a\rb": 400, "a\tb": 400, "a\nb": 400,
	} {
		_, err := routing.CreateItem(ctx, pk, small(t, id, 1), nil)
		require.NoError(t, err, "%q", id)
		_, err = routing.ReadItem(ctx, pk, id, nil)
		require.Equal(t, routed, code(err), "%q", id)
		_, err = compute.ReadItem(ctx, pk, id, nil)
		require.NoError(t, err, "%q", id)
		_, err = compute.DeleteItem(ctx, pk, id, nil)
		require.NoError(t, err, "%q", id)
	}
}

func TestTokens(t *testing.T) {
	s := open(t, emulator.Config{})
	b64 := base64.RawURLEncoding.EncodeToString
	head, claims, third := b64([]byte(`{"alg":"RS256"}`)), b64([]byte(`{"aud":"https://localhost","exp":1}`)),
		b64([]byte(emulator.Key))
	for name, c := range map[string]struct {
		token  string
		status int
	}{
		"as the suite's":    {head + "." + claims + "." + third, 200},
		"two parts":         {head + "." + claims, 401},
		"four parts":        {head + "." + claims + "." + third + ".", 401},
		"not base64":        {"!." + claims + "." + third, 401},
		"not JSON":          {head + "." + b64([]byte("x")) + "." + third, 401},
		"no algorithm":      {b64([]byte(`{}`)) + "." + claims + "." + third, 401},
		"alg none":          {b64([]byte(`{"alg":"none"}`)) + "." + claims + "." + third, 401},
		"no audience":       {head + "." + b64([]byte(`{"exp":1}`)) + "." + third, 401},
		"no expiry":         {head + "." + b64([]byte(`{"aud":"x"}`)) + "." + third, 401},
		"another key":       {head + "." + claims + "." + b64([]byte("key")), 401},
		"nothing for a key": {head + "." + claims + ".", 401},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := send(t, s, "GET", "", "", "", "", "Authorization", "type=aad&ver=1.0&sig="+c.token)
			require.Equal(t, c.status, resp.StatusCode, body)
		})
	}
	c, err := azcosmos.NewClient(s.Endpoint(), token(head+"."+claims+"."+third),
		&azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: s.Transport()}})
	require.NoError(t, err)
	create(t, c, hierarchical("chunks"), 400)
}

// token is a credential that always gives the same token.
type token string

func (k token) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(k), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func TestRequestOptions(t *testing.T) {
	s := open(t, emulator.Config{Consistency: "BoundedStaleness"})
	for header, cases := range map[string]map[string]int{
		"x-ms-consistency-level": {"BoundedStaleness": 200, "Session": 200, "Eventual": 200, "Strong": 400,
			"Weak": 400},
		"x-ms-cosmos-priority-level":    {"High": 200, "low": 200, "Medium": 400},
		"x-ms-cosmos-throughput-bucket": {"1": 200, "5": 200, "0": 400, "6": 400, "x": 400},
	} {
		for value, status := range cases {
			resp, body := send(t, s, "GET", "", "", "", "", header, value)
			require.Equal(t, status, resp.StatusCode, "%s: %s: %s", header, value, body)
		}
	}
	_, body := send(t, s, "GET", "", "", "", "")
	require.Contains(t, body, `"defaultConsistencyLevel":"BoundedStaleness"`)
	_, err := emulator.Open(emulator.Config{InMemory: true, Consistency: "Weak"})
	require.ErrorContains(t, err, "Weak")

	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx, pk := context.Background(), key("s", "d")
	large := `{"id":"a","tenantShard":"s","device":"d","x":"` + strings.Repeat("x", 10<<10) + `"}`
	_, err = co.CreateItem(ctx, pk, []byte(large), nil)
	require.NoError(t, err)
	strict, err := co.ReadItem(ctx, pk, "a", nil)
	require.NoError(t, err)
	weak := azcosmos.ConsistencyLevelEventual
	relaxed, err := co.ReadItem(ctx, pk, "a", &azcosmos.ItemOptions{ConsistencyLevel: &weak})
	require.NoError(t, err)
	require.InEpsilon(t, 2*relaxed.RequestCharge, strict.RequestCharge, 0.01)
}
