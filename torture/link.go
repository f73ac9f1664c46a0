package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// link is a proxy between the program and a server that can disturb connections. While a link is silent, it passes
// nothing. Connections that are open or opened while the link is silent never pass anything again, as if a firewall had
// dropped them.
type link struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	to    string
	how   string        // how the link disturbs connections: silent, slow, drip, refuse, busy; "": it does not
	dead  chan struct{} // closed when the link becomes silent; connections that are open at that time stay dead
	open  map[net.Conn]bool
	trap  *trap
	taps  []*tap
	ended bool
}

// trap drops one request or its answer, and closes the connection: the first request for which `matches` returns true.
type trap struct {
	matches func(request []byte) bool
	answer  bool          // true: the server gets the request, but the answer is lost; false: the request is lost
	sprung  chan struct{} // closed when the request or the answer has been dropped
}

// tap counts how often its text passes in one direction. It may also hold back each chunk of data with the text, and
// everything after the chunk on the same connection. It misses a text that is split between two chunks.
type tap struct {
	toServer bool
	text     []byte
	free     chan struct{} // nil: the tap only counts; closing it releases everything that the tap holds
	seen     atomic.Int64
}

func newLink(to string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{listener: listener, to: to, dead: make(chan struct{}), open: map[net.Conn]bool{}}
	k.wg.Go(k.accept)
	return k, nil
}

func (k *link) address() string { return k.listener.Addr().String() }

// hurt makes the link disturb connections in one way. "" heals the link, but silent connections stay silent.
func (k *link) hurt(how string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if how == "silent" {
		close(k.dead)
		k.dead = make(chan struct{})
	}
	k.how = how
}

// setTrap replaces the link's trap, which drops one request or answer. nil: no trap.
func (k *link) setTrap(t *trap) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trap = t
}

func (k *link) put(t *tap) *tap {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taps = append(k.taps, t)
	return t
}

// release removes one tap, and releases everything it holds.
func (k *link) release(t *tap) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taps = slices.DeleteFunc(slices.Clone(k.taps), func(other *tap) bool { return other == t })
	close(t.free)
}

// untap removes all taps, and releases everything that they hold.
func (k *link) untap() {
	k.letGo()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taps = nil
}

// letGo removes the taps that hold data back, and releases everything that they hold. Taps that only count stay.
func (k *link) letGo() {
	k.mu.Lock()
	defer k.mu.Unlock()
	var counting []*tap
	for _, t := range k.taps {
		if t.free == nil {
			counting = append(counting, t)
		} else {
			close(t.free)
		}
	}
	k.taps = counting
}

// tapped shows a chunk of data to the taps. It returns once no tap holds the chunk.
func (k *link) tapped(toServer bool, part []byte, dead <-chan struct{}) {
	k.mu.Lock()
	taps := k.taps
	k.mu.Unlock()
	for _, t := range taps {
		n := bytes.Count(part, t.text)
		if t.toServer != toServer || n == 0 {
			continue
		}
		t.seen.Add(int64(n))
		if t.free == nil {
			continue
		}
		select {
		case <-t.free:
		case <-dead:
		}
	}
}

// caught removes and returns the link's trap if the request matches it. Otherwise it returns nil.
func (k *link) caught(request []byte) *trap {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.trap
	if t == nil || !t.matches(request) {
		return nil
	}
	k.trap = nil
	return t
}

func (k *link) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.open {
		c.Close()
	}
}

// move makes the link forward new connections to a different server, and closes the open connections.
func (k *link) move(to string) {
	k.mu.Lock()
	k.to = to
	k.mu.Unlock()
	k.cut()
}

func (k *link) target() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.to
}

func (k *link) close() {
	k.listener.Close()
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.cut()
	k.wg.Wait()
}

func (k *link) state() (how string, dead <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.how, k.dead
}

func (k *link) accept() {
	for {
		client, err := k.listener.Accept()
		if err != nil {
			return
		}
		if how, _ := k.state(); how == "refuse" {
			client.Close()
			continue
		}
		k.wg.Go(func() { k.serve(client) })
	}
}

// serve forwards one connection in both directions until one side ends.
func (k *link) serve(client net.Conn) {
	how, dead := k.state()
	if how == "silent" { // the connection is dead from the start
		born := make(chan struct{})
		close(born)
		dead = born
	}
	server, err := net.DialTimeout("tcp", k.target(), 5*time.Second)
	if err != nil {
		client.Close()
		return
	}
	k.mu.Lock()
	if k.ended {
		client.Close()
		server.Close()
	}
	k.open[client], k.open[server] = true, true
	k.mu.Unlock()
	var both sync.WaitGroup
	var lost atomic.Pointer[trap] // the trap that accepted a request and drops its answer; nil: none
	asked := func(request []byte) bool {
		k.tapped(true, request, dead)
		t := k.caught(request)
		if t == nil {
			return true
		}
		if !t.answer {
			close(t.sprung)
			return false
		}
		lost.Store(t)
		return true
	}
	answered := func(answer []byte) bool {
		k.tapped(false, answer, dead)
		t := lost.Load()
		if t != nil {
			close(t.sprung)
		}
		return t == nil
	}
	both.Go(func() { k.forward(client, server, dead, answered) })
	both.Go(func() { k.forward(server, client, dead, asked) })
	both.Wait()
	client.Close()
	server.Close()
	k.mu.Lock()
	delete(k.open, client)
	delete(k.open, server)
	k.mu.Unlock()
}

// tooMany is a busy server's answer to any request.
const tooMany = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: 2\r\n" +
	"Connection: close\r\n\r\n{}"

// forward copies data until the connection ends, or until `mayPass` returns false for a chunk of data. On a dead
// connection, it forwards nothing, not even the end of the stream.
func (k *link) forward(to, from net.Conn, dead <-chan struct{}, mayPass func([]byte) bool) {
	b := make([]byte, 32<<10)
	for {
		how, _ := k.state()
		part := b
		if how == "drip" {
			part = b[:7]
		}
		n, err := from.Read(part)
		select {
		case <-dead:
			if err != nil {
				return
			}
			continue
		default:
		}
		if how == "slow" {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-dead:
				continue
			}
		}
		if how == "busy" && n > 0 {
			_, _ = io.WriteString(from, tooMany) // if `from` is the server, this only disconnects the client
			from.Close()
			to.Close()
			return
		}
		if n > 0 && !mayPass(b[:n]) {
			from.Close()
			to.Close()
			return
		}
		if n > 0 {
			if _, werr := to.Write(b[:n]); werr != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				to.Close()
			}
			return
		}
	}
}
