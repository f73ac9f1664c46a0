package servertest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Link forwards connections to a server. After Cut, connections that were open stay open, but nothing passes any more,
// as if a firewall had dropped their state.
type Link struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	dead     chan struct{} // closed by Cut; each connection uses the channel that was current when it began
	open     []net.Conn
	wg       sync.WaitGroup
}

// NewLink returns a link to a server at HOST:PORT. The link is closed at the end of the test.
func NewLink(t testing.TB, to string) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &Link{listener: listener, to: to, dead: make(chan struct{})}
	k.wg.Go(k.accept)
	t.Cleanup(func() {
		listener.Close()
		k.mu.Lock()
		for _, c := range k.open {
			c.Close()
		}
		k.mu.Unlock()
		k.wg.Wait()
	})
	return k
}

// Address returns the address that the link listens on.
func (k *Link) Address() string { return k.listener.Addr().String() }

func (k *Link) accept() {
	for {
		client, err := k.listener.Accept()
		if err != nil {
			return
		}
		k.mu.Lock()
		to := k.to
		k.mu.Unlock()
		server, err := net.Dial("tcp", to)
		if err != nil {
			client.Close()
			continue
		}
		k.mu.Lock()
		dead := k.dead
		k.open = append(k.open, client, server)
		k.mu.Unlock()
		k.wg.Go(func() { forward(client, server, dead) })
		k.wg.Go(func() { forward(server, client, dead) })
	}
}

// forward copies data from one connection to the other. Once dead is closed, it reads on but passes nothing, not even
// the end of the stream.
func forward(to io.WriteCloser, from io.Reader, dead <-chan struct{}) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		select {
		case <-dead:
			if err != nil {
				return
			}
			continue
		default:
		}
		if n > 0 {
			if _, werr := to.Write(b[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

// Lead makes the link forward new connections to a different server, at HOST:PORT.
func (k *Link) Lead(to string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.to = to
}

// Cut makes open connections dead. New connections still work.
func (k *Link) Cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.dead)
	k.dead = make(chan struct{})
}
