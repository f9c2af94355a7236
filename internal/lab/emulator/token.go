package emulator

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"strings"

	"binnacle/internal/lab/emulator/refusal"
)

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
