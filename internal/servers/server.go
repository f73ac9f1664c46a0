package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"replicator/internal/pause"
)

const (
	// These timeouts only prevent waiting forever: the end of a process is noticed at once. They are long because a JVM
	// took more than five minutes to start on a busy machine.
	startTimeout = 20 * time.Minute
	stopTimeout  = 10 * time.Minute
	// The timeout of one request. It is long, because early retries would load a busy machine even more.
	pingTimeout = time.Minute
)

// Options say what to start. Only Kind is required.
type Options struct {
	Kind Kind
	// Dir contains the data, the log and the socket. If it already contains data, the server starts with these data. If
	// Dir is "", Start chooses a directory, which Close removes.
	Dir string
	// Port is the port of 127.0.0.1 to listen on. 0 picks a free port.
	Port int
	// Args are options of the server's program. They override the options that this package sets.
	Args []string
	// Small makes a server for tests that takes little memory. On a Linux machine with plenty of memory, Start chooses
	// a directory in memory for it, so that commits don't wait for a disk.
	Small bool
	// Progress is called with short sentences about slow steps. It may be nil.
	Progress func(string)
}

// Server is a server that runs, or one that has ended and can be started again.
type Server struct {
	Kind    Kind
	Version string // the release, such as "9.7.4"
	Dir     string // an absolute path; the log is Dir/log
	Port    int

	opts    Options
	in      *installation
	lease   *portLease
	scratch *scratch // nil if the caller chose Dir

	mu     sync.Mutex // held while the server is started or ended
	closed bool

	procMu sync.Mutex // held for a moment, to read or set proc
	proc   *process   // the process that was started last; nil before the first start
}

// Start starts a server and returns when it answers. The caller closes it. The error is a [*MissingError] if this
// machine has no such server and can't fetch one.
func Start(ctx context.Context, opts Options) (*Server, error) {
	opts.Progress = orDiscard(opts.Progress)
	in, err := find(ctx, opts.Kind, opts.Progress)
	if err != nil {
		return nil, err
	}
	s := &Server{Kind: opts.Kind, Version: in.version, opts: opts, in: in}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	begin := time.Now()
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	opts.Progress(fmt.Sprintf("%s: version %s answers on %s after %.1f s", s.Kind, s.Version, s.Addr(),
		time.Since(begin).Seconds()))
	return s, nil
}

func (s *Server) open(ctx context.Context) error {
	if s.opts.Dir == "" {
		root := os.TempDir()
		if memory := memoryDir(); s.opts.Small && memory != "" {
			root = memory
		}
		own, err := newScratch(ctx, root, s.Kind)
		if err != nil {
			return err
		}
		s.scratch, s.Dir = own, own.dir
	} else {
		if err := os.MkdirAll(s.opts.Dir, 0o755); err != nil {
			return fmt.Errorf("servers: %s: directory: %w", s.Kind, err)
		}
		dir, err := filepath.Abs(s.opts.Dir)
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if err != nil {
			return fmt.Errorf("servers: %s: directory: %w", s.Kind, err)
		}
		s.Dir = dir
	}
	lease, err := leasePort(s.opts.Port)
	if err != nil {
		return err
	}
	s.lease, s.Port = lease, lease.port
	return nil
}

// start starts the process and waits until the server answers. The caller holds s.mu, or no other goroutine has s.
func (s *Server) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer after %v", startTimeout))
	defer cancel()
	if err := s.prepareData(ctx); err != nil {
		return err
	}
	for _, name := range specs[s.Kind].leftovers {
		// A file that a crash left would prevent the start. For example, a lock file contains the id of the crashed
		// process, and a different process may have this id now.
		if err := os.Remove(filepath.Join(s.Dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("servers: %s: %w", s.Kind, err)
		}
	}
	var env []string // if nil, the server gets this process's environment
	if prepare := specs[s.Kind].prepare; prepare != nil {
		var err error
		if env, err = prepare(ctx, s); err != nil {
			return err
		}
	}
	if err := s.awaitPort(ctx); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("servers: %s: log: %w", s.Kind, err)
	}
	defer log.Close() // the child process has its own descriptor
	st, err := log.Stat()
	if err != nil {
		return fmt.Errorf("servers: %s: log: %w", s.Kind, err)
	}
	cmd := exec.Command(s.in.server(), append(specs[s.Kind].args(s.in, s), s.opts.Args...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.Dir, env, log, log
	proc, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("servers: %s: %w", s.Kind, err)
	}
	s.setProcess(proc)
	return s.awaitAnswer(ctx, proc, log.Name(), st.Size())
}

// prepareData creates Dir/data if it does not exist. It copies the cache's data directory, unless the options change
// the data files.
func (s *Server) prepareData(ctx context.Context) error {
	data := filepath.Join(s.Dir, "data")
	if isDir(data) {
		return nil
	}
	sp, part := specs[s.Kind], data+".part"
	err := os.RemoveAll(part)
	switch {
	case err != nil:
	case sp.initialise == nil:
		err = os.Mkdir(part, 0o755)
	case s.shaped():
		s.opts.Progress(fmt.Sprintf("%s: creating a data directory for its options, about 5 seconds", s.Kind))
		log := filepath.Join(s.Dir, "log")
		if err = sp.initialise(ctx, s.in, part, s.opts.Args, log); err != nil {
			return fmt.Errorf("%w%s", err, tail(log, 0))
		}
	default:
		err = copyTree(s.in.template(), part)
	}
	if err == nil {
		err = os.Rename(part, data)
	}
	if err != nil {
		return fmt.Errorf("servers: %s: data directory: %w", s.Kind, err)
	}
	return nil
}

func (s *Server) shaped() bool {
	for _, arg := range s.opts.Args {
		if re := specs[s.Kind].fileOptions; re != nil && re.MatchString(arg) {
			return true
		}
	}
	return false
}

// awaitPort waits until the port can be bound. After a kill, this can take a moment.
func (s *Server) awaitPort(ctx context.Context) error {
	for end := time.Now().Add(time.Minute); !portFree(s.Port); {
		if time.Now().After(end) {
			return fmt.Errorf(
				"servers: %s: port %d of 127.0.0.1 is taken by another process. End it, or use another port",
				s.Kind, s.Port)
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("servers: %s: waiting for port %d: %w", s.Kind, s.Port, err)
		}
	}
	return nil
}

// awaitAnswer waits until the server answers. If the server ends first, it returns an error. If ctx ends first, it
// kills the server and returns an error.
func (s *Server) awaitAnswer(ctx context.Context, proc *process, log string, from int64) error {
	asked, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // stops a ping that waits for a server that has ended
		select {
		case <-proc.Done():
			stop()
		case <-asked.Done():
		}
	}()
	for {
		err := specs[s.Kind].ping(asked, s)
		if !proc.running() {
			return fmt.Errorf("servers: %s %s ended while starting (%v)%s", s.Kind, s.Version,
				proc.cmd.ProcessState, tail(log, from))
		}
		if serving := specs[s.Kind].serving; err == nil && serving != nil {
			var pid int
			pid, err = serving(s)
			proc.served.Store(int64(pid))
		}
		if err == nil {
			return nil
		}
		select {
		case <-proc.Done(): // the next iteration returns the error of the ended server
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			killed := proc.signal(syscall.SIGKILL)
			<-proc.Done()
			return errors.Join(fmt.Errorf("servers: %s %s on port %d did not start (%w). The last error: %w%s",
				s.Kind, s.Version, s.Port, context.Cause(ctx), err, tail(log, from)), killed)
		}
	}
}

// Addr returns the host and port that the server listens on.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// DSN returns the address of a database of the server. For MySQL and MariaDB, it has go-sql-driver's form, with root
// and no password. For Redis it is redis://…/db. db may be "".
func (s *Server) DSN(db string) string { return specs[s.Kind].dsn(s.Addr(), db) }

// PID returns the id of the last process. Every Restart changes the id.
func (s *Server) PID() int {
	if p := s.process(); p != nil {
		return p.pid()
	}
	return 0
}

// Running reports whether the process exists. A suspended process exists, too.
func (s *Server) Running() bool {
	p := s.process()
	return p != nil && p.running()
}

func (s *Server) process() *process {
	s.procMu.Lock()
	defer s.procMu.Unlock()
	return s.proc
}

func (s *Server) setProcess(p *process) {
	s.procMu.Lock()
	defer s.procMu.Unlock()
	s.proc = p
}

// Stop asks the server to end and waits for that, ten minutes at most. If the server has already ended, Stop does
// nothing.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop(ctx)
}

func (s *Server) stop(ctx context.Context) error {
	p := s.process()
	if p == nil || !p.running() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout, fmt.Errorf("it still runs after %v", stopTimeout))
	defer cancel()
	// A suspended process handles SIGTERM only after SIGCONT.
	if err := errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT)); err != nil {
		return err
	}
	if err := p.wait(ctx); err != nil {
		return fmt.Errorf("servers: %s: stopping process %d: %w. Its log is %s. Kill ends it", s.Kind, p.pid(), err,
			filepath.Join(s.Dir, "log"))
	}
	return nil
}

// Kill ends the server as a crash would. It returns when the process, its threads and its port are gone. If the server
// has already ended, Kill does nothing.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

func (s *Server) kill() error {
	p := s.process()
	if p == nil || !p.running() {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.Done()
	return s.awaitPort(context.Background())
}

// Restart starts the server again on its directory and port. It first stops the server if it runs.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("servers: %s: Restart was called after Close. Call Start for a new server", s.Kind)
	}
	if err := s.stop(ctx); err != nil {
		return err
	}
	return s.start(ctx)
}

// Suspend freezes the server: connections stay open, but the server does not answer, as on a machine that hangs. Resume
// continues it.
func (s *Server) Suspend() error { return s.send(syscall.SIGSTOP) }

// Resume continues a suspended server.
func (s *Server) Resume() error { return s.send(syscall.SIGCONT) }

func (s *Server) send(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.process()
	if p == nil || !p.running() {
		return fmt.Errorf("servers: %s: can't send %v, because the server does not run", s.Kind, sig)
	}
	return p.signal(sig)
}

// Close ends the server and releases its port. If Start chose the directory, Close kills the server and removes the
// directory. If the caller chose the directory, Close stops the server in order and leaves the data. A second Close
// does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.scratch == nil {
		err = s.stop(context.Background())
	}
	err = errors.Join(err, s.kill())
	if s.scratch != nil {
		err = errors.Join(err, s.scratch.remove())
	}
	if s.lease != nil {
		err = errors.Join(err, s.lease.release())
	}
	return err
}
