package kafka

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"binnacle/internal/retry"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// transport is kafka-go's Transport, made to wait for a late layout. kafka-go asks a broker for the layout of the
// cluster before the first request, and waits for that no longer than the greatest age of metadata. If the answer is
// late, it fails all requests until it asks again: those for the controller with BrokerNotAvailable, those for a
// partition with ErrNoTopic, though no broker has said so.
type transport struct{ *kafkago.Transport }

// layoutPauses are the pauses between looks for the layout. kafka-go asks for it again by itself.
var layoutPauses = retry.Policy{First: 5 * time.Millisecond, Max: 200 * time.Millisecond}

// RoundTrip implements kafkago.RoundTripper. It sends the request once the layout is known. A late answer of the
// cluster is waited for until the context ends; any other reason why there is no layout, such as a refused connection
// or refused credentials, fails the request at once.
func (t transport) RoundTrip(ctx context.Context, addr net.Addr, req kafkago.Request) (kafkago.Response, error) {
	err := layoutPauses.Do(ctx, func(ctx context.Context) error {
		_, err := t.Transport.RoundTrip(ctx, addr, &metadata.Request{TopicNames: []string{}}) // from the cache
		if err != nil && !isLate(err) {
			return retry.Permanent(err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return t.Transport.RoundTrip(ctx, addr, req)
}

// isLate reports whether an error is that no answer came in time.
func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}
