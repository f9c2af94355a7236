package cosmos

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Credential authenticates a Client: by an account key or by an identity. Exactly one is set.
type Credential struct {
	// Keys returns the account keys that may be good, base64, the first choice first: primary and secondary as a
	// rule. It is asked at the start and again when the service refuses a key, so that keys can be exchanged while
	// processes run.
	Keys func() ([]string, error)
	// Token is an Entra ID identity.
	Token azcore.TokenCredential
}

// FixedKey returns a Credential of one key that never changes.
func FixedKey(key string) Credential {
	return Credential{Keys: func() ([]string, error) { return []string{key}, nil }}
}

// KeyFile returns a Credential of the keys in a file, one a line; it is read again when the service refuses a key.
func KeyFile(path string) Credential {
	return Credential{Keys: func() ([]string, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read account keys: %w", err)
		}
		keys := strings.Fields(string(text))
		if len(keys) == 0 {
			return nil, fmt.Errorf("read account keys: %s holds none", path)
		}
		return keys, nil
	}}
}

// The kinds of identities for Identity.
const (
	// what the environment offers: environment variables, workload, managed, the Azure CLI
	IdentityDefault     = "default"
	IdentityWorkload    = "workload"    // identity of a Kubernetes pod
	IdentityManaged     = "managed"     // identity of a virtual machine or an app
	IdentityEnvironment = "environment" // AZURE_TENANT_ID, AZURE_CLIENT_ID and a secret or certificate
)

// Identities are all kinds of identities.
var Identities = []string{IdentityDefault, IdentityWorkload, IdentityManaged, IdentityEnvironment}

// Identity returns a Credential of an Entra ID identity of some kind. client is the client id of one of several; empty
// for the only one, or for what the environment says.
func Identity(kind, client string) (c Credential, err error) {
	switch kind {
	case IdentityDefault:
		c.Token, err = azidentity.NewDefaultAzureCredential(nil)
	case IdentityWorkload:
		o := azidentity.WorkloadIdentityCredentialOptions{ClientID: client}
		c.Token, err = azidentity.NewWorkloadIdentityCredential(&o)
	case IdentityManaged:
		var o azidentity.ManagedIdentityCredentialOptions
		if client != "" {
			o.ID = azidentity.ClientID(client)
		}
		c.Token, err = azidentity.NewManagedIdentityCredential(&o)
	case IdentityEnvironment:
		c.Token, err = azidentity.NewEnvironmentCredential(nil)
	default:
		return c, fmt.Errorf("identity %q is none of %s", kind, strings.Join(Identities, ", "))
	}
	if err != nil {
		return Credential{}, fmt.Errorf("%s identity: %w", kind, err)
	}
	return c, nil
}

func (c Credential) check() error {
	if (c.Keys == nil) == (c.Token == nil) {
		return errors.New("cosmos: a credential is either account keys or an identity")
	}
	return nil
}

// connect makes an SDK client; the key is used only by credentials that have keys.
func (c Credential) connect(endpoint, key string, o *azcosmos.ClientOptions) (*azcosmos.Client, error) {
	if c.Token != nil {
		return azcosmos.NewClient(endpoint, c.Token, o)
	}
	signer, err := azcosmos.NewKeyCredential(key)
	if err != nil {
		return nil, fmt.Errorf("the account key is not base64: %w", err)
	}
	return azcosmos.NewClientWithKey(endpoint, signer, o)
}

// keyRing knows the account keys and which one is in use.
type keyRing struct {
	read func() ([]string, error) // nil: there are no keys
	now  func() time.Time

	mu      sync.Mutex // guards below
	keys    []string
	refused map[string]bool // since the keys were read last and were other ones
	at      time.Time       // time when they were read last
}

// rereadKeys bounds how often keys are read again while every one of them is refused.
const rereadKeys = time.Second

func newRing(c Credential, now func() time.Time) (*keyRing, error) {
	r := &keyRing{read: c.Keys, now: now, refused: map[string]bool{}}
	if r.read == nil {
		return r, nil
	}
	keys, err := r.read()
	if err == nil && len(keys) == 0 {
		err = errors.New("there is no account key")
	}
	r.keys, r.at = keys, now()
	return r, err
}

// key returns the one in use: the first that is not known to be refused, else the first; empty without keys.
func (r *keyRing) key() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read == nil {
		return ""
	}
	return r.choice()
}

func (r *keyRing) choice() string {
	for _, k := range r.keys {
		if !r.refused[k] {
			return k
		}
	}
	return r.keys[0]
}

// refuse notes that a key is not good, and reports whether there is another one to try. Keys are read again then.
func (r *keyRing) refuse(key string) (another bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read == nil {
		return false, nil
	}
	if !r.refused[key] || r.now().Sub(r.at) >= rereadKeys {
		keys, readErr := r.read()
		r.at, err = r.now(), readErr
		if readErr == nil && len(keys) > 0 && !slices.Equal(keys, r.keys) {
			r.keys, r.refused = keys, map[string]bool{}
		}
	}
	r.refused[key] = true
	return !r.refused[r.choice()], err
}

// refused reports whether the service does not know the caller: wrong signature, expired key.
func refused(answer *Error) bool { return answer.Status == http.StatusUnauthorized }
