package kafka

import (
	"context"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
)

// Member is a process in a consumer group.
type Member struct {
	ClientID, Host string
	Data           []byte // user data of its join request
}

// Members returns the members of a consumer group. It fails while the group shares out its partitions: then brokers
// know of no member what it joined with. A group that does not exist has none.
func (c *Client) Members(ctx context.Context, group string) ([]Member, error) {
	res, err := c.api.DescribeGroups(ctx, &kafkago.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err == nil && len(res.Groups) == 1 {
		err = res.Groups[0].Error
	}
	if err != nil {
		return nil, fmt.Errorf("describe the consumer group %s: %w", group, err)
	}
	if len(res.Groups) != 1 {
		return nil, fmt.Errorf("describe the consumer group %s: the broker did not answer for it", group)
	}
	g := res.Groups[0]
	if g.GroupState == "PreparingRebalance" || g.GroupState == "CompletingRebalance" {
		return nil, fmt.Errorf("the consumer group %s is sharing out its partitions (%s): try again", group, g.GroupState)
	}
	members := make([]Member, len(g.Members))
	for i, m := range g.Members {
		members[i] = Member{ClientID: m.ClientID, Host: m.ClientHost, Data: m.MemberMetadata.UserData}
	}
	return members, nil
}

// ClusterID returns the id of the cluster.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	res, err := c.api.Metadata(ctx, &kafkago.MetadataRequest{})
	if err != nil {
		return "", fmt.Errorf("read metadata of the cluster: %w", err)
	}
	return c.clusterID(res.ClusterID)
}
