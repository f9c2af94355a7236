package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// mechanism returns nil when SASL is off.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "":
		return nil, nil
	case OAuthBearer:
		source := s.Token
		if source == nil {
			source = tokenFile(s.TokenFile)
		}
		return bearer{source}, nil
	}
	m := byPassword{s}
	if _, _, err := m.Start(context.Background()); err != nil { // a fault shows at the start, not at the first connection
		return nil, err
	}
	return m, nil
}

// byPassword is PLAIN and SCRAM with a password that is read for each connection.
type byPassword struct{ sasl SASL }

// Name implements sasl.Mechanism.
func (m byPassword) Name() string { return m.sasl.Mechanism }

// Start implements sasl.Mechanism.
func (m byPassword) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	password, err := secret(m.sasl.PasswordFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read the password for Kafka: %w", err)
	}
	var now sasl.Mechanism
	switch m.sasl.Mechanism {
	case Plain:
		now = plain.Mechanism{Username: m.sasl.User, Password: password}
	case ScramSHA256:
		now, err = scram.Mechanism(scram.SHA256, m.sasl.User, password)
	case ScramSHA512:
		now, err = scram.Mechanism(scram.SHA512, m.sasl.User, password)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("prepare SASL %s: %w", m.sasl.Mechanism, err)
	}
	return now.Start(ctx)
}

// secret returns the content of a file without the line end that editors add.
func secret(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(b), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return text, nil
}

// Token is a token of OAUTHBEARER (RFC 7628).
type Token struct {
	Value      string
	Extensions map[string]string // such as Confluent's logicalCluster; nil is none
}

// TokenSource returns a valid token. It is called for each connection, by any number of callers, and may cache.
type TokenSource func(ctx context.Context) (Token, error)

func tokenFile(file string) TokenSource {
	return func(context.Context) (Token, error) {
		value, err := secret(file)
		return Token{Value: value}, err
	}
}

// bearer is SASL OAUTHBEARER.
type bearer struct{ source TokenSource }

// Name implements sasl.Mechanism.
func (bearer) Name() string { return OAuthBearer }

// Start implements sasl.Mechanism.
func (b bearer) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, err := b.source(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("get a token for Kafka: %w", err)
	}
	first := []byte("n,,\x01auth=Bearer " + token.Value + "\x01")
	for name, value := range token.Extensions {
		first = append(first, name+"="+value+"\x01"...)
	}
	return bearer{}, append(first, '\x01'), nil
}

// Next implements sasl.StateMachine: a broker that accepts the token sends nothing, any other sends the reason.
func (bearer) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	if len(challenge) > 0 {
		return false, nil, errors.New("Kafka refuses the token: " + string(challenge))
	}
	return true, nil, nil
}
