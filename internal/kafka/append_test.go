package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/internal/kafka"

	"github.com/stretchr/testify/require"
)

func several(n int, value string) []kafka.Message {
	all := make([]kafka.Message, n)
	for i := range all {
		all[i] = kafka.Message{Value: []byte(value)}
	}
	return all
}

// Append returns where the messages stand, by every codec, and also when others append between.
func appendReturnsTheOffset(t *testing.T, at target) {
	next := int64(0)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		of := connect(t, kafka.Config{Brokers: []string{at.addr}, Compression: codec}).Topic(at.topic)
		for n := 1; n <= 3; n++ {
			base, err := of.Append(t.Context(), 1, several(n, codec))
			require.NoError(t, err)
			require.Equal(t, next, base, codec)
			next += int64(n)
		}
		_, err := of.Produce(t.Context(), 1, several(1, "somebody else"))
		require.NoError(t, err)
		next++
	}
	of := connect(t, kafka.Config{Brokers: []string{at.addr}}).Topic(at.topic)
	first, end, err := of.Bounds(t.Context(), 1)
	require.NoError(t, err)
	require.Zero(t, first)
	require.Equal(t, next, end)
	require.Equal(t, []string{"zstd", "zstd", "zstd", "somebody else"}, values(t, of, 1, end-4))

	var offsets, want []int64 // of a stretch that begins and ends inside of what was appended at once
	require.NoError(t, of.Each(t.Context(), kafka.Span{Partition: 1, From: 4, To: end - 2}, func(r *kafka.Record) error {
		offsets = append(offsets, r.Offset)
		return nil
	}, nil))
	for at := int64(4); at < end-2; at++ {
		want = append(want, at)
	}
	require.Equal(t, want, offsets)
	err = of.Each(t.Context(), kafka.Span{Partition: 1, From: end - 1, To: end + 1},
		func(*kafka.Record) error { return nil }, nil)
	require.ErrorContains(t, err, fmt.Sprintf("/1 ends at offset %d, and not at %d any more", end, end+1))

	// With room for one answer at a time: each is given back, also when the reader wants no more.
	tight := connect(t, kafka.Config{Brokers: []string{at.addr}, MaxFetchedBytes: 1}).Topic(at.topic)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	enough := errors.New("enough")
	for range 3 {
		err := tight.Each(ctx, kafka.Span{Partition: 1, From: 0, To: end}, func(*kafka.Record) error { return enough }, nil)
		require.ErrorIs(t, err, enough)
		n := int64(0)
		all := kafka.Span{Partition: 1, From: 0, To: end}
		require.NoError(t, tight.Each(ctx, all, func(*kafka.Record) error { n++; return nil }, nil))
		require.Equal(t, end, n)
	}
}

// What does not fit is refused, and nothing of it is appended.
func appendRefusesWhatDoesNotFit(t *testing.T, at target) {
	of := connect(t, kafka.Config{Brokers: []string{at.addr}, Compression: "none"}).Topic(at.topic)
	part := string(bytes.Repeat([]byte("x"), 90_000))
	fits := several(9, part)
	_, err := of.Append(t.Context(), 0, append(fits, several(1, part)...))
	require.ErrorIs(t, err, kafka.ErrTooLarge)
	base, err := of.Append(t.Context(), 0, fits)
	require.NoError(t, err)
	require.Zero(t, base)

	small := at.topicOf(t, map[string]string{"max.message.bytes": "10000"})
	of = connect(t, kafka.Config{Brokers: []string{at.addr}, Compression: "none"}).Topic(small)
	_, err = of.Append(t.Context(), 0, several(2, string(make([]byte, 6_000))))
	require.ErrorIs(t, err, kafka.ErrTooLarge, "the topic has a bound of its own")
	base, err = of.Append(t.Context(), 0, several(1, string(make([]byte, 6_000))))
	require.NoError(t, err)
	require.Zero(t, base, "nothing of the first attempt is there")

	own := connect(t, kafka.Config{Brokers: []string{at.addr}, MaxRequestBytes: 100_000}).Topic(at.topic)
	_, err = own.Append(t.Context(), 1, several(2, part))
	require.ErrorIs(t, err, kafka.ErrTooLarge, "and the client may have one")
	_, err = own.Append(t.Context(), 1, nil)
	require.Error(t, err)
}

// dropping is a dialler with connections that are deaf from the produce request on, so that nobody hears the answer,
// however soon it comes.
type dropping struct {
	on   atomic.Bool
	sent atomic.Int64
}

type droppingConn struct {
	net.Conn
	of   *dropping
	deaf atomic.Bool
}

func (c *droppingConn) Write(b []byte) (int, error) {
	if c.of.on.Load() && bytes.Contains(b, []byte("only once")) {
		c.of.sent.Add(1)
		c.deaf.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *droppingConn) Read(b []byte) (int, error) {
	if c.deaf.Load() {
		return 0, io.EOF
	}
	return c.Conn.Read(b)
}

// A connection that ends before the answer is an error, not a second request.
func TestAppendSendsOneRequest(t *testing.T) {
	b := embeddedBroker(t)
	var d dropping
	of := connect(t, kafka.Config{Brokers: []string{b.Addr()}, Compression: "none",
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &droppingConn{Conn: conn, of: &d}, err
		}}).Topic(topic)
	_, err := of.Append(t.Context(), 0, several(1, "first"))
	require.NoError(t, err)
	d.on.Store(true)
	_, err = of.Append(t.Context(), 0, several(1, "only once"))
	require.Error(t, err)
	require.False(t, errors.Is(err, kafka.ErrTooLarge))
	require.False(t, kafka.IsPermanent(err))
	require.EqualValues(t, 1, d.sent.Load())
	d.on.Store(false)
	require.Eventually(t, func() bool {
		_, end, err := of.Bounds(t.Context(), 0)
		return err == nil && end == 2
	}, time.Minute, time.Millisecond, "it is in the log all the same")
	require.Equal(t, []string{"first", "only once"}, values(t, of, 0, 0))
}
