package broker_test

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"binnacle/internal/lab/broker"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// dial connects raw; the deadline only keeps a broken test from hanging.
func dial(t testing.TB, b *broker.Broker) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", b.Addr())
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// frame is a request with any head and body.
func frame(key, version int16, body ...byte) []byte {
	f := binary.BigEndian.AppendUint32(nil, uint32(10+len(body)))
	f = binary.BigEndian.AppendUint16(f, uint16(key))
	f = binary.BigEndian.AppendUint16(f, uint16(version))
	f = binary.BigEndian.AppendUint32(f, 77)     // correlation id
	f = binary.BigEndian.AppendUint16(f, 0xFFFF) // no client id
	return append(f, body...)
}

// readFrame reads an answer without its length.
func readFrame(conn net.Conn) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(conn, body)
	return body, err
}

// requireAlive asks something that every layer has to answer.
func requireAlive(t testing.TB, b *broker.Broker) {
	t.Helper()
	conn := dial(t, b)
	_, err := conn.Write(frame(18, 0))
	require.NoError(t, err)
	answer, err := readFrame(conn)
	require.NoError(t, err)
	require.EqualValues(t, 77, binary.BigEndian.Uint32(answer))
}

func requireClosed(t testing.TB, conn net.Conn) {
	t.Helper()
	n, err := conn.Read(make([]byte, 1))
	require.Zero(t, n)
	require.Truef(t, errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET), "not closed: %v", err)
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	b := open(t, config(t))
	for name, sent := range map[string][]byte{
		"unknown key":                 frame(9999, 0),
		"negative key":                frame(-1, 0),
		"key of brokers":              frame(4, 0),
		"version too high":            frame(3, 99),
		"version too low":             frame(0, 2),
		"negative version":            frame(1, -1),
		"negative ApiVersions":        frame(18, -1),
		"length of 4 GiB":             {0xFF, 0xFF, 0xFF, 0xFF},
		"length of 100 MiB and a bit": {0x06, 0x40, 0x00, 0x01},
		"length of 0":                 {0, 0, 0, 0},
		"length too short":            {0, 0, 0, 9},
		"HTTP":                        []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"TLS hello":                   {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, b)
			_, err := conn.Write(sent)
			require.NoError(t, err)
			requireClosed(t, conn)
			requireAlive(t, b)
		})
	}
	conn := dial(t, b)
	_, err := conn.Write(frame(18, 0))
	require.NoError(t, err)
	_, err = readFrame(conn)
	require.NoError(t, err)
	_, err = conn.Write(frame(9999, 0))
	require.NoError(t, err)
	requireClosed(t, conn) // every frame is checked, not only the first
	produce(t, client(t, b), 0, kafka.Gzip, "still works")
}

func TestPartialFrameBlocksNothing(t *testing.T) {
	b := open(t, config(t))
	whole := frame(18, 0)
	for n := range whole {
		_, err := dial(t, b).Write(whole[:n])
		require.NoError(t, err)
	}
	for range 50 { // 5 GB announced
		_, err := dial(t, b).Write([]byte{0x06, 0x40, 0x00, 0x00, 0, 0, 0, 9, 1, 2, 3})
		require.NoError(t, err)
	}
	requireAlive(t, b)
}

func TestFrameSentByteByByte(t *testing.T) {
	b := open(t, config(t))
	conn := dial(t, b)
	for _, c := range append(frame(18, 0), frame(18, 1)...) {
		_, err := conn.Write([]byte{c})
		require.NoError(t, err)
	}
	for range 2 {
		_, err := readFrame(conn)
		require.NoError(t, err)
	}
}

// Clients begin with the highest version of ApiVersions that they know.
func TestApiVersions(t *testing.T) {
	b := open(t, config(t))
	for version := int16(0); version <= 30; version++ {
		request := kmsg.NewPtrApiVersionsRequest()
		request.ClientSoftwareName, request.ClientSoftwareVersion = "librdkafka", "2.3.0"
		request.SetVersion(version)
		conn := dial(t, b)
		_, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("kcat")).AppendRequest(nil, request, 5))
		require.NoError(t, err)
		answer, err := readFrame(conn)
		require.NoErrorf(t, err, "version %d", version)
		response := kmsg.NewPtrApiVersionsResponse()
		response.SetVersion(version)
		if version > 5 {
			response.SetVersion(0)
		}
		require.NoError(t, response.ReadFrom(answer[4:]))
		served := map[int16]int16{}
		for _, k := range response.ApiKeys {
			served[k.ApiKey] = k.MaxVersion
		}
		if version > 5 {
			require.EqualValues(t, 35, response.ErrorCode, "UNSUPPORTED_VERSION")
			require.Equal(t, map[int16]int16{18: 5}, served)
			continue
		}
		require.Zero(t, response.ErrorCode)
		require.Greater(t, len(served), 50)
	}
}

// A frame from 1 MiB on takes another way through the guard. Both answers are those of the broker itself.
func TestBatchesUpToTheLimit(t *testing.T) {
	b := open(t, config(t))
	c := client(t, b)
	produce(t, c, 0, 0, strings.Repeat("x", 1_000_000))
	produce(t, c, 0, 0, strings.Repeat("y", 1_048_400))
	answer, err := c.Produce(t.Context(), &kafka.ProduceRequest{
		Topic: topic, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes(make([]byte, 3<<20))}),
	})
	require.NoError(t, err)
	require.ErrorIs(t, answer.Error, kafka.MessageSizeTooLarge)
	_, end := offsets(t, c, 0)
	require.EqualValues(t, 2, end)
}

// requests are well-formed frames of every API and version that the broker serves, as seeds.
func requests(t testing.TB, b *broker.Broker) [][]byte {
	conn := dial(t, b)
	_, err := conn.Write(frame(18, 0))
	require.NoError(t, err)
	answer, err := readFrame(conn)
	require.NoError(t, err)
	served := kmsg.NewPtrApiVersionsResponse()
	require.NoError(t, served.ReadFrom(answer[4:]))
	var all [][]byte
	for _, k := range served.ApiKeys {
		for v := k.MinVersion; v <= k.MaxVersion; v++ {
			request := kmsg.RequestForKey(k.ApiKey)
			request.SetVersion(v)
			all = append(all, kmsg.NewRequestFormatter().AppendRequest(nil, request, 1))
		}
	}
	return all
}

// send writes a frame on its own connection, says that no more comes, and waits until the broker has
// answered or closed. A panic in the broker ends the test binary.
func send(t testing.TB, b *broker.Broker, sent []byte) {
	conn := dial(t, b)
	defer conn.Close()
	if _, err := conn.Write(sent); err != nil {
		return
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	for {
		if _, err := readFrame(conn); err != nil {
			require.NotErrorIsf(t, err, os.ErrDeadlineExceeded, "neither answered nor closed: %x", sent)
			return
		}
	}
}

func TestMutatedRequests(t *testing.T) {
	cfg := config(t)
	b := open(t, cfg)
	seeds := requests(t, b)
	require.Greater(t, len(seeds), 200)
	const seed = 20261121
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, s := range seeds {
		send(t, b, s)
		m := append([]byte(nil), s...)
		for range 1 + r.IntN(4) {
			if len(m) > 8 {
				m[8+r.IntN(len(m)-8)] = byte(r.Uint32())
			}
		}
		send(t, b, m)
	}
	requireAlive(t, b)
}

func FuzzRawBytes(f *testing.F) {
	b, err := broker.Open(broker.Config{DataDir: f.TempDir(), Addr: "127.0.0.1:0", Topics: []string{topic}})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, b.Close()) })
	for i, s := range requests(f, b) {
		if i%10 == 0 {
			f.Add(s)
		}
	}
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, data []byte) {
		sent := slices.Clone(data)
		send(t, b, sent)
		if len(sent) > 4 { // a length that fits lets the rest come further
			binary.BigEndian.PutUint32(sent, uint32(len(sent)-4))
			send(t, b, sent)
		}
	})
}
