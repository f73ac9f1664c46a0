package kafkaclient

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Client is a client whose end no broker can put off.
type Client struct {
	*kgo.Client
	giveUp context.CancelFunc
}

// New makes a client. It connects to nothing yet.
func New(options ...kgo.Opt) (*Client, error) {
	ctx, cancel := context.WithCancel(context.Background())
	made, err := kgo.NewClient(append(slices.Clip(options), kgo.WithContext(ctx))...)
	if err != nil {
		cancel()
		return nil, err
	}
	return &Client{made, cancel}, nil
}

// closeTime is how long Close says goodbye.
const closeTime = time.Second

// Close leaves a group and closes connections, as CloseWithin does.
func (c *Client) Close() { c.CloseWithin(closeTime) }

// CloseWithin leaves a group and closes connections. Brokers that have not taken notice of it within a time find out by
// themselves. A client of its own accord waits: for an answer to its leaving, and for that a reader's session is over,
// for which it opens a connection, once more than it takes to give up one at which a broker is silent.
func (c *Client) CloseWithin(most time.Duration) {
	defer c.giveUp()
	defer time.AfterFunc(most, c.giveUp).Stop()
	c.Client.Close()
}
