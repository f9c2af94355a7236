package emulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"hash"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"binnacle/internal/lab/emulator/refusal"
)

// signer checks master key signatures: HMAC-SHA256 over verb, resource type, link and date.
type signer struct{ pool sync.Pool }

type signature struct {
	mac     hash.Hash
	message []byte
	sum     []byte
	text    []byte
}

func newSigner(key string) *signer {
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		panic("emulator: the master key is not base64")
	}
	return &signer{pool: sync.Pool{New: func() any { return &signature{mac: hmac.New(sha256.New, raw)} }}}
}

const masterPrefix = "type=master&ver=1.0&sig="

// check refuses a request that is neither signed with the master key nor has a token. The age of its date
// is not checked: the clock of the emulator may be injected, that of its clients is not.
func (s *signer) check(r *http.Request, rt route) error {
	header := r.Header.Get("Authorization")
	if header == "" {
		return refusal.Unauthorized("the Authorization header is missing")
	}
	token, err := url.QueryUnescape(header)
	if err != nil {
		return refusal.Unauthorized("the Authorization header is not escaped correctly")
	}
	given, ok := strings.CutPrefix(token, masterPrefix)
	if !ok {
		if given, ok = strings.CutPrefix(token, tokenPrefix); ok {
			return checkToken(given)
		}
		return refusal.Unauthorized("authorization is by master key or by token: type=master or type=aad, ver=1.0")
	}
	link := rt.link
	ok = s.matches(given, rt, r)
	if !ok && rt.kind == kindKey {
		// azure-cosmos for Python signs the link in lower case, @azure/cosmos the container.
		rt.link = strings.ToLower(link)
		ok = s.matches(given, rt, r) || s.matches(given, route{kind: "colls", link: link}, r)
	}
	if !ok {
		return refusal.Unauthorized(
			"the signature is not that of the emulator's key over this method, resource and x-ms-date")
	}
	return nil
}

func (s *signer) matches(given string, rt route, r *http.Request) bool {
	g := s.pool.Get().(*signature)
	defer s.pool.Put(g)
	m := appendLower(g.message[:0], r.Method)
	m = appendLower(append(m, '\n'), rt.kind)
	m = append(append(m, '\n'), rt.link...)
	m = appendLower(append(m, '\n'), r.Header.Get("X-Ms-Date"))
	m = append(m, '\n', '\n')
	g.mac.Reset()
	_, _ = g.mac.Write(m)
	g.sum = g.mac.Sum(g.sum[:0])
	g.text = base64.StdEncoding.AppendEncode(g.text[:0], g.sum)
	g.message = m
	return hmac.Equal(g.text, []byte(given))
}

func appendLower(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// tokenPrefix begins the Authorization header of a client with an Entra ID credential.
const tokenPrefix = "type=aad&ver=1.0&sig="

// tokenKey is the third part of the tokens that Microsoft's emulator takes, and so this one: the text
// of the master key. There is no issuer to verify a signature with.
var tokenKey = []byte(base64.RawURLEncoding.EncodeToString([]byte(Key)))

// checkToken refuses what is not a JSON Web Token of the shape that azcosmos's tests send: two JSON
// objects, the first with an algorithm, the second with an audience and an expiry, and the key in place
// of the signature. Whether it has expired is not checked, for the reason that the age of a
// signature's date is not.
func checkToken(token string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return refusal.Unauthorized("the token has not the three parts of a JSON Web Token")
	}
	var head struct {
		Alg string `json:"alg"`
	}
	var claims struct {
		Aud string `json:"aud"`
		Exp int64  `json:"exp"`
	}
	for i, into := range []any{&head, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(raw, into) != nil {
			return refusal.Unauthorized("a part of the token is not JSON in base64url")
		}
	}
	switch {
	case head.Alg == "" || strings.EqualFold(head.Alg, "none"):
		return refusal.Unauthorized("the token names no algorithm")
	case claims.Aud == "" || claims.Exp <= 0:
		return refusal.Unauthorized("the token has no audience, or no expiry")
	case subtle.ConstantTimeCompare([]byte(parts[2]), tokenKey) != 1:
		return refusal.Unauthorized("the token's third part is not the emulator's key in base64url")
	}
	return nil
}
