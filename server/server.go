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

// Fence is a position in a source's binlog that views should include.
type Fence struct {
	At     string // a GTID set or FILE:POS
	Source string // the shard of the source; "" if there are no shards
}

// Controller is the running program as the API uses it.
type Controller interface {
	// Status returns the status of every view and source, in the order of the configuration.
	Status(ctx context.Context) ([]replicator.ViewStatus, error)

	// Wait returns once the views (all, if none is named) include every commit up to the fence.
	Wait(ctx context.Context, fence Fence, views []string) error

	// Retry retries dead letters. It returns how many letters it tried and how many of these remain.
	Retry(ctx context.Context, which Selection) (tried, left int, err error)

	// Drop removes dead letters and returns how many it removed.
	Drop(ctx context.Context, which Selection) (int, error)

	// LetterGroups groups the dead letters of a view ("" for all views) by their reason.
	LetterGroups(ctx context.Context, view string) ([]LetterGroup, error)

	// Letter returns one dead letter. The error wraps ErrUnknown if no letter has that id.
	Letter(ctx context.Context, id string) (replicator.DeadLetter, error)

	// Rebuild returns once the rebuild has started; Status shows its progress.
	Rebuild(ctx context.Context, view string, how Rebuild) error

	// Pause stops writing to a view until Resume.
	Pause(ctx context.Context, view string) error
	Resume(ctx context.Context, view string) error

	// Look re-reads cells from a source and replaces the cells' entries in a view. It returns once each cell's new
	// entries, or its dead letter, are durable.
	Look(ctx context.Context, view, source string, cells []replicator.Cell) error
}

// Rebuild says how a view is rebuilt. With the zero value, a scan of all rows fills a shadow (a second copy of the
// view). Once complete, the shadow replaces the view.
type Rebuild struct {
	From    string `json:"from,omitempty"`     // the `offset` value where the scan starts; "": the first row
	InPlace bool   `json:"in_place,omitempty"` // write into the live view instead of a shadow
}

// Selection selects dead letters: by ids, by a group, by a view, or all of them.
type Selection struct {
	IDs   []string `json:"ids,omitempty"`
	Group string   `json:"group,omitempty"` // a group's id, from LetterGroup.Group
	View  string   `json:"view,omitempty"`
	All   bool     `json:"all,omitempty"`
}

// If a Controller can't do what was requested, its error wraps one of these errors.
var (
	ErrUnknown = errors.New("not known")                  // no such view or dead letter
	ErrInvalid = errors.New("invalid request")            // such as a log position that is neither a GTID set nor FILE:POS
	ErrBusy    = errors.New("not possible at the moment") // such as a rebuild of a view that is being rebuilt
	ErrStandby = errors.New("this process stands by")     // another process runs the views
)

// MostWait is the longest timeout that a wait can have.
const MostWait = time.Hour

const (
	mostHeader  = 16 << 10
	mostBody    = 1 << 20
	mostWaiting = 256
	defaultWait = 30 * time.Second
	answerTime  = 30 * time.Second // timeout of all requests except wait and retry
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
	stop     context.CancelCauseFunc // ends the requests that wait
	watching sync.WaitGroup          // waits for the goroutine that runs watch.run
	done     chan struct{}           // closed once served is set
	served   error                   // the error that ended serving
	waiting  chan struct{}           // has an element for each request that waits now; its capacity limits their number
	ending   atomic.Bool             // set once replicator starts to drain its pipelines; /readyz then fails
}

// Listen starts a server at an address (HOST:PORT). It serves until Close. Without a token, it accepts requests that
// change something only if the address is a loopback address.
func Listen(address, token string, c Controller, m *Metrics) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("server: %w. If another replicator is running, give each its own http.listen, "+
			"or set http.listen to \"\"", err)
	}
	s := &Server{controller: c, metrics: m, token: sha256.Sum256([]byte(token)),
		hasToken: token != "", started: time.Now(), watch: newWatch(c, m),
		listener: listener, done: make(chan struct{}), waiting: make(chan struct{}, mostWaiting)}
	if at, ok := listener.Addr().(*net.TCPAddr); ok {
		s.loopback = at.IP.IsLoopback()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s.stop = cancel
	m.setController(c)
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

// Stopping records that replicator is draining its pipelines. From now on, /readyz fails.
func (s *Server) Stopping() { s.ending.Store(true) }

var errStopping = errors.New("the program is stopping")

// Close stops serving. Waiting requests end at once. Other requests may finish until ctx is done.
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

// refusing makes a mux answer unknown paths below /api/ with a JSON error. The mux would answer in plain text.
func refusing(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" && strings.HasPrefix(r.URL.Path, "/api/") {
			w = refusal{w, r}
		}
		mux.ServeHTTP(w, r)
	})
}

// refusal writes a JSON error instead of the mux's plain text. It keeps the Allow header.
type refusal struct {
	http.ResponseWriter
	asked *http.Request
}

func (f refusal) WriteHeader(code int) {
	err := errors.New("unknown path " + f.asked.URL.Path)
	if allow := f.Header().Get("Allow"); code == http.StatusMethodNotAllowed {
		err = fmt.Errorf("%s accepts %s, not %s", f.asked.URL.Path, allow, f.asked.Method)
	}
	fail(f.ResponseWriter, code, err)
}

func (f refusal) Write(text []byte) (int, error) { return len(text), nil } // WriteHeader already sent the JSON answer

// guarded sets the headers of every answer. If the server listens on loopback, it refuses requests for other host
// names.
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
				errors.New("this server answers only to localhost and 127.0.0.1. Set http.listen to serve other names"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopbackHost reports whether a Host header names the loopback interface. A malicious site may point its own name to
// 127.0.0.1, but the browser then still sends the site's name.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(strings.ToLower(host), "[]"), ".")
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *Server) limited(most time.Duration, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// http.Server.ReadTimeout can't be used here. It would end a waiting request as if the client had disconnected.
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

// trusted refuses requests from other sites' pages and requests without the token. If the server has no token, it
// refuses requests unless it listens on loopback.
func (s *Server) trusted(most time.Duration, next http.HandlerFunc) http.Handler {
	crossSite := http.NewCrossOriginProtection()
	return s.limited(most, func(w http.ResponseWriter, r *http.Request) {
		if err := crossSite.Check(r); err != nil {
			fail(w, http.StatusForbidden, errors.New("the request comes from another site's page, so it is refused"))
			return
		}
		if !s.hasToken {
			if !s.loopback {
				fail(w, http.StatusForbidden,
					errors.New("other machines can reach this server, and it has no token. Set http.token_file"))
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
				errors.New("the token is missing or wrong. Send Authorization: Bearer TOKEN with the token of "+
					"http.token or http.token_file"))
			return
		}
		next(w, r)
	})
}
