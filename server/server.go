package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"replicator"
)

// Fence is a position in a source's binlog.
type Fence struct {
	At     string // a GTID set or FILE:POS
	Source string // the shard of the source; "" if there are no shards
}

// Controller is the running program as the API uses it.
type Controller interface {
	// Status returns the status of every view and source, in the order of the configuration.
	Status(ctx context.Context) ([]replicator.ViewStatus, error)

	// Wait returns once the views (all, if none is named) include the fence.
	Wait(ctx context.Context, fence Fence, views []string) error

	// Retry retries dead letters. It returns how many it tried and how many of these remain.
	Retry(ctx context.Context, which Selection) (tried, left int, err error)

	// Drop removes dead letters and returns their number.
	Drop(ctx context.Context, which Selection) (int, error)

	// LetterGroups groups the dead letters of a view ("" for all views) by their reason.
	LetterGroups(ctx context.Context, view string) ([]LetterGroup, error)

	// Letter returns one dead letter. The error wraps ErrUnknown if there is none with that id.
	Letter(ctx context.Context, id string) (replicator.DeadLetter, error)

	// Rebuild returns once the rebuild has started; Status shows its progress.
	Rebuild(ctx context.Context, view string, how Rebuild) error

	// Pause stops a view's writes.
	Pause(ctx context.Context, view string) error
	Resume(ctx context.Context, view string) error

	// Look re-reads cells from a source and replaces what a view holds for them. It returns once the new entries, or a
	// dead letter of the cell, are durable.
	Look(ctx context.Context, view, source string, cells []replicator.Cell) error
}

// Rebuild says how a view is rebuilt. The zero value starts at offset zero and swaps the new view in when it is
// complete.
type Rebuild struct {
	From    string `json:"from,omitempty"`     // the offset to start at
	InPlace bool   `json:"in_place,omitempty"` // write into the live view, without a shadow
}

// Selection selects dead letters: by ids, by a group, by a view, or all of them.
type Selection struct {
	IDs   []string `json:"ids,omitempty"`
	Group string   `json:"group,omitempty"` // LetterGroup.Group
	View  string   `json:"view,omitempty"`
	All   bool     `json:"all,omitempty"`
}

// A Controller's errors wrap one of these if the request can't be served.
var (
	ErrUnknown = errors.New("not known")                  // no such view or dead letter
	ErrInvalid = errors.New("invalid request")            // such as a fence that is neither a GTID set nor FILE:POS
	ErrBusy    = errors.New("not possible at the moment") // such as a rebuild while one runs
	ErrStandby = errors.New("this process stands by")     // another process runs
)

// MostWait is the longest timeout that a wait can have.
const MostWait = time.Hour

const (
	mostHeader  = 16 << 10
	mostBody    = 1 << 20
	mostWaiting = 256
	defaultWait = 30 * time.Second
	answerTime  = 30 * time.Second // for all requests except wait and retry
	retryTime   = 10 * time.Minute
)

type Server struct {
	controller Controller
	metrics    *Metrics
	token      [sha256.Size]byte
	hasToken   bool
	loopback   bool
	started    time.Time
	watch      *watch

	listener net.Listener
	http     http.Server
	stop     context.CancelCauseFunc // ends the waiting requests
	watching sync.WaitGroup          // the goroutine of watch
	done     chan struct{}           // closed once served is set
	served   error
	waiting  chan struct{}
	ending   atomic.Bool // the program is draining
}

// Listen binds an address (HOST:PORT) and serves until Close. With an empty token, it accepts requests that change
// something only on loopback.
func Listen(address, token string, c Controller, m *Metrics) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("server: %w; another replicator may be running: give each its own http.listen, or \"\" for none", err)
	}
	s := &Server{controller: c, metrics: m, token: sha256.Sum256([]byte(token)),
		hasToken: token != "", started: time.Now(), watch: newWatch(c, m),
		listener: listener, done: make(chan struct{}), waiting: make(chan struct{}, mostWaiting)}
	if at, ok := listener.Addr().(*net.TCPAddr); ok {
		s.loopback = at.IP.IsLoopback()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s.stop = cancel
	m.show(c)
	s.http = http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    mostHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	s.watching.Go(func() { s.watch.run(ctx) })
	go func() {
		defer close(s.done)
		s.served = s.http.Serve(listener)
	}()
	return s, nil
}

// Addr returns the address that the server listens on, HOST:PORT.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Stopping records that the program is draining: /readyz fails from now on.
func (s *Server) Stopping() { s.ending.Store(true) }

var errStopping = errors.New("the program is stopping")

// Close stops serving. Waiting requests end at once; others may finish until ctx is done.
func (s *Server) Close(ctx context.Context) error {
	s.stop(errStopping)
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.done
	s.watching.Wait()
	if !errors.Is(s.served, http.ErrServerClosed) {
		err = errors.Join(err, s.served)
	}
	return err
}

type route struct {
	pattern string
	handler http.Handler
}

// routes returns all routes. docs/openapi.json documents the parameters and answers of the API.
func (s *Server) routes() []route {
	return []route{
		{"GET /{$}", s.limited(answerTime, s.page)},
		{"GET /deadletters", s.limited(answerTime, s.lettersPage)},
		{"GET /live", s.limited(MostWait+answerTime, s.live)},
		{"GET /api/v1/status", s.limited(answerTime, s.status)},
		{"GET /api/v1/wait", s.limited(MostWait+answerTime, s.wait)},
		{"POST /api/v1/views/{view}/rebuild", s.trusted(answerTime, s.rebuild)},
		{"POST /api/v1/views/{view}/look", s.trusted(retryTime, s.look)},
		{"POST /api/v1/views/{view}/pause", s.trusted(answerTime, s.pause)},
		{"POST /api/v1/views/{view}/resume", s.trusted(answerTime, s.resume)},
		{"GET /api/v1/deadletters", s.limited(answerTime, s.letterGroups)},
		{"GET /api/v1/deadletters/{id}", s.trusted(answerTime, s.letter)},
		{"POST /api/v1/deadletters/retry", s.trusted(retryTime, s.retry)},
		{"POST /api/v1/deadletters/drop", s.trusted(answerTime, s.drop)},
		{"GET /metrics", s.limited(answerTime, s.metrics.handler().ServeHTTP)},
		{"GET /healthz", s.limited(answerTime, s.health)},
		{"GET /readyz", s.limited(answerTime, s.ready)},
	}
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.Handle(r.pattern, r.handler)
	}
	return s.guarded(refusing(mux))
}

// refusing answers unknown paths below /api/ with a JSON error. The mux would answer in plain text.
func refusing(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" && strings.HasPrefix(r.URL.Path, "/api/") {
			w = refusal{w, r}
		}
		mux.ServeHTTP(w, r)
	})
}

// refusal replaces the mux's own answer by JSON and keeps the Allow header.
type refusal struct {
	http.ResponseWriter
	asked *http.Request
}

func (f refusal) WriteHeader(code int) {
	err := errors.New("there is no " + f.asked.URL.Path)
	if allow := f.Header().Get("Allow"); code == http.StatusMethodNotAllowed {
		err = fmt.Errorf("%s takes %s, not %s", f.asked.URL.Path, allow, f.asked.Method)
	}
	fail(f.ResponseWriter, code, err)
}

func (f refusal) Write(text []byte) (int, error) { return len(text), nil } // the JSON answer was already sent

// guarded refuses host names that aren't this machine's and sets the headers of every answer.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set(productHeader, productName)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "+
			"script-src '"+scriptHash()+"'; connect-src 'self'; "+
			"frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		if s.loopback && !loopbackHost(r.Host) {
			fail(w, http.StatusForbidden,
				errors.New("this server answers to localhost and 127.0.0.1 only; set http.listen to serve other names"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopbackHost reports whether a Host header names this machine. A malicious site may point its name to 127.0.0.1, but
// the browser still sends that name.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(strings.ToLower(host), "[]"), ".")
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// limited bounds the time and the body size of a request.
func (s *Server) limited(most time.Duration, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// This can't be http.Server.ReadTimeout: it would end a waiting request as if the client had hung up.
		deadline := time.Now().Add(most + 5*time.Second)
		control := http.NewResponseController(w)
		if err := errors.Join(control.SetReadDeadline(deadline), control.SetWriteDeadline(deadline)); err != nil {
			fail(w, http.StatusInternalServerError, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), most)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		next(w, r.WithContext(ctx))
	})
}

// trusted admits only clients that may change something or see values of rows.
func (s *Server) trusted(most time.Duration, next http.HandlerFunc) http.Handler {
	crossSite := http.NewCrossOriginProtection()
	return s.limited(most, func(w http.ResponseWriter, r *http.Request) {
		if err := crossSite.Check(r); err != nil {
			fail(w, http.StatusForbidden, errors.New("requests from another site's page are refused"))
			return
		}
		if !s.hasToken {
			if !s.loopback {
				fail(w, http.StatusForbidden,
					errors.New("this server can be reached from other machines and has no token: set http.token_file"))
				return
			}
			next(w, r)
			return
		}
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		sum := sha256.Sum256([]byte(strings.TrimSpace(given)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(sum[:], s.token[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="replicator"`)
			fail(w, http.StatusUnauthorized,
				errors.New("the token is missing or wrong: send Authorization: Bearer TOKEN (http.token or http.token_file)"))
			return
		}
		next(w, r)
	})
}
