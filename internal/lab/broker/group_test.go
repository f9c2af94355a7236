package broker_test

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"binnacle/internal/lab/broker"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// request sends a request of a version without flexible fields.
func request(t testing.TB, conn net.Conn, req kmsg.Request) {
	t.Helper()
	_, err := conn.Write(frame(req.Key(), req.GetVersion(), req.AppendTo(nil)...))
	require.NoError(t, err)
}

// receive reads the answer to a request.
func receive[R kmsg.Response](t testing.TB, conn net.Conn, req kmsg.Request) R {
	t.Helper()
	body, err := readFrame(conn)
	require.NoError(t, err)
	require.Equal(t, uint32(77), binary.BigEndian.Uint32(body))
	resp := req.ResponseKind()
	require.NoError(t, resp.ReadFrom(body[4:]))
	return resp.(R)
}

func joining(member string, session int32) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 3, "g", member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = session, 60_000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = "range"
	req.Protocols = append(req.Protocols, protocol)
	return req
}

// group is the state of the group and how many members it has.
func group(t testing.TB, conn net.Conn) (state string, members int) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{"g"}
	request(t, conn, req)
	about := receive[*kmsg.DescribeGroupsResponse](t, conn, req).Groups[0]
	return about.State, len(about.Members)
}

// until waits for something that the broker does by itself; the deadline of dial keeps it from hanging.
func until(t testing.TB, done func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !done(); time.Sleep(time.Millisecond) {
		require.Less(t, time.Now(), end)
	}
}

// Consumers that end while they wait for others to join are put out of their group like those that end later.
func TestMembersGoneBeforeJoining(t *testing.T) {
	t.Parallel()
	b := open(t, broker.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	asks := dial(t, b)
	set := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeBroker
	shortest := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	shortest.Name, shortest.Value = "group.min.session.timeout.ms", kmsg.StringPtr("100")
	resource.Configs = append(resource.Configs, shortest)
	set.Resources = append(set.Resources, resource)
	request(t, asks, set)
	require.Zero(t, receive[*kmsg.IncrementalAlterConfigsResponse](t, asks, set).Resources[0].ErrorCode)

	stays := dial(t, b)
	join := joining("", 60_000)
	request(t, stays, join)
	joined := receive[*kmsg.JoinGroupResponse](t, stays, join)
	require.Zero(t, joined.ErrorCode)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.Generation, sync.MemberID = "g", joined.Generation, joined.MemberID
	request(t, stays, sync)
	require.Zero(t, receive[*kmsg.SyncGroupResponse](t, stays, sync).ErrorCode)

	const going = 8 // left to itself kfake keeps about half of them
	var gone []net.Conn
	for range going {
		conn := dial(t, b)
		request(t, conn, joining("", 100))
		gone = append(gone, conn)
	}
	until(t, func() bool {
		state, members := group(t, asks)
		return state == "PreparingRebalance" && members == 1+going
	})
	for _, conn := range gone {
		require.NoError(t, conn.Close())
	}
	requireAlive(t, b)

	join = joining(joined.MemberID, 60_000)
	request(t, stays, join)
	again := receive[*kmsg.JoinGroupResponse](t, stays, join)
	require.Zero(t, again.ErrorCode)
	until(t, func() bool {
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Group, beat.Generation, beat.MemberID = "g", again.Generation, again.MemberID
		request(t, stays, beat)
		if receive[*kmsg.HeartbeatResponse](t, stays, beat).ErrorCode == kerr.RebalanceInProgress.Code {
			join = joining(joined.MemberID, 60_000)
			request(t, stays, join)
			again = receive[*kmsg.JoinGroupResponse](t, stays, join)
		}
		return len(again.Members) == 1
	})
	_, members := group(t, asks)
	require.Equal(t, 1, members)
}
