package canal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"replicator/internal/link"
	"replicator/internal/socket"
	"replicator/internal/uuid"
)

type eventHandler interface {
	// handle receives one event as the server sent it, including the header. The event's memory is reused afterwards,
	// unless the event is large. An error ends the dump.
	handle(raw []byte) error
}

// dump has the server send its binlog to h, until ctx is done or an error occurs. With heartbeat 0 the server sends the
// events that exist, and then ends the dump (io.EOF).
//
// Short dumps use heartbeat 0. Otherwise an idle server would notice only at its next heartbeat that the reader is
// gone, and abandoned dumps would use up its connections.
func (s *Source) dump(
	ctx context.Context, srv server, from gomysql.Position, heartbeat time.Duration, h eventHandler,
) error {
	id := s.ids.take()
	defer s.ids.giveBack(id)
	c, err := s.dumping(ctx, srv, from, heartbeat, id)
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	defer c.Close()
	err = handleAll(c, h)
	if ctx.Err() == nil {
		return err // kill nothing: if the server has restarted, another client may have this connection id
	}
	s.kill(srv, c.GetConnectionID())
	return errors.Join(ctx.Err(), err)
}

func handleAll(c *client.Conn, h eventHandler) error {
	in := newPackets(c.Conn.Conn) // reads the network connection itself; go-mysql's buffer is empty before the first event
	for {
		packet, err := in.next()
		switch {
		case err != nil:
			return err
		case len(packet) == 0:
			return errors.New("the server sent an empty binlog packet")
		case packet[0] == gomysql.ERR_HEADER:
			return c.HandleErrorPacket(packet)
		case packet[0] == gomysql.EOF_HEADER:
			return io.EOF
		case packet[0] != gomysql.OK_HEADER:
			return fmt.Errorf("the server sent a binlog packet of unknown kind %d", packet[0])
		}
		if err := h.handle(packet[1:]); err != nil {
			return err
		}
	}
}

// dumping opens a connection that is ready to receive the binlog. The connection is closed when ctx is done.
func (s *Source) dumping(
	ctx context.Context, srv server, from gomysql.Position, heartbeat time.Duration, id uint32,
) (*client.Conn, error) {
	c, err := s.connectReplica(ctx, srv, s.cfg.ReadTimeout)
	if err != nil {
		return nil, err
	}
	if err = s.leadsTo(ctx, c, srv); err == nil {
		err = s.askForBinlog(c, from, heartbeat, id)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// leadsTo checks that a new connection leads to the same server as the pool's connections, because the address may now
// lead to another server. If it leads to another server, leadsTo closes the pool's connections, and the next attempt
// uses the new server everywhere.
func (s *Source) leadsTo(ctx context.Context, c *client.Conn, srv server) error {
	r, err := c.Execute(srv.identityQuery())
	if err != nil {
		return err
	}
	defer r.Close()
	identity, err := r.GetString(0, 0)
	if err != nil {
		return err
	}
	err = srv.is(identity)
	if err == nil {
		return nil
	}
	// Replace the pool's connections by one to the server that the address leads to now.
	link.Renew(s.db)
	conn, failed := s.db.Conn(ctx)
	if failed == nil {
		failed = conn.Close()
	}
	return errors.Join(err, failed)
}

// askForBinlog registers as a replica and requests the binlog. Everything that the server sends afterwards is the
// binlog.
func (s *Source) askForBinlog(c *client.Conn, from gomysql.Position, heartbeat time.Duration, id uint32) error {
	if _, err := c.Execute(dumpSession(heartbeat)); err != nil {
		return err
	}
	c.ResetSequence()
	if err := c.WritePacket(registration(id, s.mysql.User)); err != nil {
		return err
	}
	if _, err := c.ReadOKPacket(); err != nil {
		return err
	}
	var flags uint16
	if heartbeat == 0 {
		flags = replication.BINLOG_DUMP_NON_BLOCK
	}
	c.ResetSequence()
	return c.WritePacket(dumpCommand(from, flags, id))
}

// dumpSession returns the statements that prepare a session for a dump. The server leaves out the events' checksums,
// because the stream computes its own (stream.sum). The server waits up to a day for a slow sink, instead of a minute.
// The UUID is random, because MySQL ends the older of two dumps with the same UUID.
func dumpSession(heartbeat time.Duration) string {
	me := uuid.Random()
	return fmt.Sprintf("SET @master_binlog_checksum = 'NONE', @source_binlog_checksum = 'NONE', "+
		"@mariadb_slave_capability = 4, @slave_uuid = '%s', @replica_uuid = '%s', "+
		"@master_heartbeat_period = %d, @source_heartbeat_period = %d, SESSION net_write_timeout = 86400",
		me, me, heartbeat, heartbeat)
}

// registration returns the packet of COM_REGISTER_SLAVE, after which SHOW REPLICAS lists the reader.
func registration(id uint32, user string) []byte {
	host, _ := os.Hostname() // the server only displays host, user and password
	b := append(make([]byte, packetHead), gomysql.COM_REGISTER_SLAVE)
	b = binary.LittleEndian.AppendUint32(b, id)
	for _, text := range []string{host, user, ""} { // "": the password
		text = text[:min(len(text), 255)]
		b = append(append(b, byte(len(text))), text...)
	}
	return append(b, make([]byte, 2+4+4)...) // port, rank, the source's server id
}

func dumpCommand(from gomysql.Position, flags uint16, id uint32) []byte {
	b := append(make([]byte, packetHead), gomysql.COM_BINLOG_DUMP)
	b = binary.LittleEndian.AppendUint32(b, max(from.Pos, 4))
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.LittleEndian.AppendUint32(b, id)
	return append(b, from.Name...)
}

// connectReplica opens a connection that is closed when ctx is done: go-mysql's connections ignore contexts after
// dialing.
func (s *Source) connectReplica(ctx context.Context, srv server, silence time.Duration) (*client.Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	dial := func(dialing context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(dialing, network, address)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		return &longRead{Conn: socket.Quick(conn), timeout: silence, unwatch: stop}, nil
	}
	return client.ConnectWithDialer(dialing, s.mysql.Net, s.mysql.Addr, s.mysql.User, s.mysql.Passwd, "", dial,
		func(c *client.Conn) error {
			c.SetTLSConfig(replicationTLS(s.mysql, srv.tls))
			c.SetAttributes(map[string]string{"_client_role": "binary_log_listener"})
			return nil
		})
}

// kill ends a dump at the server. Otherwise the server would notice only at its next heartbeat that the reader is gone.
func (s *Source) kill(srv server, number uint32) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	c, err := s.connectReplica(ctx, srv, dialTimeout)
	if err != nil {
		return // the server will notice at its next heartbeat that the reader is gone
	}
	defer c.Close()
	_, _ = c.Execute(fmt.Sprintf("KILL %d", number)) // the dump may have ended already
}

// longRead is the network connection under a replication connection. A new deadline for each of the many small reads
// would cost a quarter of the throughput. So the deadline is renewed only after a quarter of the timeout.
type longRead struct {
	net.Conn
	timeout time.Duration
	renewed time.Time
	unwatch func() bool // the context no longer closes the connection
}

func (l *longRead) Read(b []byte) (int, error) {
	if now := time.Now(); now.Sub(l.renewed) > l.timeout/4 {
		l.renewed = now
		if err := l.SetReadDeadline(now.Add(l.timeout)); err != nil {
			return 0, err
		}
	}
	return l.Conn.Read(b)
}

func (l *longRead) Close() error {
	l.unwatch()
	return l.Conn.Close()
}
