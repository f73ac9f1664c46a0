package server

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"replicator"
)

// Controller is the running program.
type Controller interface {
	// Status returns the status of every view.
	Status(ctx context.Context) ([]replicator.ViewStatus, error)

	// Wait returns nil once the views (all, if none is named) include what the fence names; ErrUnknown for a view that is not
	// kept here.
	Wait(ctx context.Context, fence string, views []string) error

	// Retry tries dead letters again and returns how many are left of those; Drop removes them and returns how many there were.
	Retry(ctx context.Context, which Selection) (tried, left int, err error)
	Drop(ctx context.Context, which Selection) (dropped int, err error)
}

// Selection names dead letters: by id, of a view, or all.
type Selection struct {
	IDs  []string `json:"ids,omitempty"`
	View string   `json:"view,omitempty"`
	All  bool     `json:"all,omitempty"`
}

// ErrUnknown: no such view.
var ErrUnknown = errors.New("no such view")

// Server serves HTTP until it is closed.
type Server struct {
	http     *http.Server
	listener net.Listener
	done     chan struct{}
}

// Listen starts to serve on an address. An empty token asks for none.
func Listen(address, token string, c Controller, m *Metrics) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("http: listening on %s: %w; is another replicator running? Set [http] listen to a free address, or to \"\"", address, err)
	}
	s := &Server{listener: l, done: make(chan struct{})}
	s.http = &http.Server{
		Handler: Handler(c, m, token), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // it ends by Close, or with the listener
	}()
	return s, nil
}

// Address is the address listened on.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close ends it, after the requests under way, but within ctx.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.done
	return err
}

// Handler is all that the server serves.
func Handler(c Controller, m *Metrics, token string) http.Handler {
	h := &handler{controller: c, token: token}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.page)
	mux.HandleFunc("GET /api/v1/status", h.status)
	mux.HandleFunc("GET /api/v1/wait", h.wait)
	mux.HandleFunc("POST /api/v1/deadletters/retry", h.changes(h.retry))
	mux.HandleFunc("POST /api/v1/deadletters/drop", h.changes(h.drop))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", h.ready)
	mux.Handle("GET /metrics", m.handler(c))
	return h.guard(mux)
}

type handler struct {
	controller Controller
	token      string
}

// guard refuses requests by a name that is not ours: a page elsewhere whose name was made to resolve to this machine.
func (h *handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if h.token == "" && host != "localhost" && net.ParseIP(strings.Trim(host, "[]")) == nil {
			fail(w, http.StatusForbidden, fmt.Errorf("host %q is not this program's: use its address", host))
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		next.ServeHTTP(w, r)
	})
}

// changes guards what changes state.
func (h *handler) changes(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Replicator") == "" {
			fail(w, http.StatusForbidden, errors.New("the header X-Replicator: 1 is missing (it keeps web pages elsewhere out)"))
			return
		}
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if h.token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(h.token)) != 1 {
			fail(w, http.StatusUnauthorized, errors.New("the bearer token is missing or wrong: it is what [http] token_file holds"))
			return
		}
		next(w, r)
	}
}

func (h *handler) status(w http.ResponseWriter, r *http.Request) {
	views, err := h.controller.Status(r.Context())
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"views": views})
}

// maxWait bounds how long one request may wait.
const maxWait = 10 * time.Minute

func (h *handler) wait(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	fence := q.Get("gtid")
	if fence == "" {
		fence = q.Get("pos")
	}
	if fence == "" {
		fail(w, http.StatusBadRequest, errors.New("say what to wait for: gtid=SET or pos=FILE:POS"))
		return
	}
	timeout := 30 * time.Second
	if t := q.Get("timeout"); t != "" {
		d, err := time.ParseDuration(t)
		if err != nil || d < 0 {
			fail(w, http.StatusBadRequest, fmt.Errorf("timeout %q is not a duration such as 5s", t))
			return
		}
		timeout = min(d, maxWait)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	var views []string
	for _, v := range q["view"] {
		views = append(views, strings.Split(v, ",")...)
	}
	err := h.controller.Wait(ctx, fence, views)
	switch {
	case err == nil:
		answer(w, http.StatusOK, map[string]any{"included": true})
	case errors.Is(err, ErrUnknown):
		fail(w, http.StatusNotFound, err)
	case ctx.Err() != nil:
		fail(w, http.StatusGatewayTimeout, err)
	default:
		fail(w, http.StatusConflict, err)
	}
}

func (h *handler) retry(w http.ResponseWriter, r *http.Request) {
	h.letters(w, r, func(s Selection) (map[string]any, error) {
		tried, left, err := h.controller.Retry(r.Context(), s)
		return map[string]any{"tried": tried, "left": left}, err
	})
}

func (h *handler) drop(w http.ResponseWriter, r *http.Request) {
	h.letters(w, r, func(s Selection) (map[string]any, error) {
		n, err := h.controller.Drop(r.Context(), s)
		return map[string]any{"dropped": n}, err
	})
}

func (h *handler) letters(w http.ResponseWriter, r *http.Request, do func(Selection) (map[string]any, error)) {
	var s Selection
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("the request's body is not as it should be: %w", err))
		return
	}
	result, err := do(s)
	if err != nil {
		fail(w, http.StatusConflict, err)
		return
	}
	answer(w, http.StatusOK, result)
}

// ready answers 200 if every view runs and its lag is known, else 503 with the reasons.
func (h *handler) ready(w http.ResponseWriter, r *http.Request) {
	views, err := h.controller.Status(r.Context())
	reasons := []string{}
	if err != nil {
		reasons = append(reasons, err.Error())
	}
	for _, v := range views {
		serving := []string{replicator.StateRunning, replicator.StatePaused, replicator.StateRebuilding}
		switch {
		case !slices.Contains(serving, v.State):
			reasons = append(reasons, strings.TrimSuffix(fmt.Sprintf("view %s is %s: %s", v.View, v.State, v.Error), ": "))
		case v.LagSeconds == nil && v.State == replicator.StateRunning:
			reasons = append(reasons, fmt.Sprintf("view %s: its lag is not known yet", v.View))
		}
	}
	status := http.StatusOK
	if len(reasons) > 0 {
		status = http.StatusServiceUnavailable
	}
	answer(w, status, map[string]any{"ready": len(reasons) == 0, "reasons": reasons})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client went away
}

func fail(w http.ResponseWriter, status int, err error) {
	answer(w, status, map[string]any{"error": err.Error()})
}
