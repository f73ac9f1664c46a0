package kafkaclient

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Client is a Kafka client that closes in time even if brokers don't answer.
type Client struct {
	*kgo.Client
	giveUp context.CancelFunc
}

// New makes a client, without connecting.
func New(options ...kgo.Opt) (*Client, error) {
	ctx, cancel := context.WithCancel(context.Background())
	made, err := kgo.NewClient(append(slices.Clip(options), kgo.WithContext(ctx))...)
	if err != nil {
		cancel()
		return nil, err
	}
	return &Client{made, cancel}, nil
}

// closeTime is how long Close may take.
const closeTime = time.Second

// Close leaves the consumer group and closes all connections. It waits at most closeTime for the brokers' answers.
func (c *Client) Close() { c.CloseWithin(closeTime) }

// CloseWithin leaves the consumer group and closes all connections. It waits at most `limit` for the brokers' answers.
// A broker that has not answered by then notices the closed connection later. A plain client would wait for the answer.
func (c *Client) CloseWithin(limit time.Duration) {
	defer c.giveUp()
	defer time.AfterFunc(limit, c.giveUp).Stop()
	c.Client.Close()
}
