package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"replicator"
)

// Every answer has the header "X-Replicator: 1". Client uses it to tell this program from another program on the same
// port.
const (
	productHeader = "X-Replicator"
	productName   = "1"
)

type errorAnswer struct {
	Error  string `json:"error"`
	Reason string `json:"reason,omitempty"` // a code for programs; "" if the HTTP status is specific enough
}

// The values of errorAnswer.Reason. Both errors have the same HTTP status, and clients must treat them differently: a
// client can follow a rebuild that is already running, but it can't rebuild a paused view.
const (
	reasonRebuilding = "rebuilding"
	reasonPaused     = "paused"
)

func reasonOf(err error) string {
	switch {
	case errors.Is(err, replicator.ErrRebuilding):
		return reasonRebuilding
	case errors.Is(err, replicator.ErrPaused):
		return reasonPaused
	}
	return ""
}

type statusAnswer struct {
	Started time.Time               `json:"started"`
	Views   []replicator.ViewStatus `json:"views"`
}

type retryAnswer struct {
	Tried int `json:"tried"`
	Left  int `json:"left"`
}

type dropAnswer struct {
	Dropped int `json:"dropped"`
}

type waitAnswer struct {
	Included bool `json:"included"`
}

// NotReady names a view that is not ready, and the reason.
type NotReady struct {
	View   string `json:"view"`
	Sink   string `json:"sink"`
	Source string `json:"source,omitempty"`
	Reason string `json:"reason"`
}

type readyAnswer struct {
	Ready   bool       `json:"ready"`
	Reasons []NotReady `json:"reasons"`
}

func answer(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":"the answer can't be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // an error means that the client has disconnected
}

func fail(w http.ResponseWriter, code int, err error) {
	answer(w, code, errorAnswer{Error: err.Error(), Reason: reasonOf(err)})
}

// failed answers a request with the error that a method of the Controller returned, and the matching HTTP status.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.Is(context.Cause(r.Context()), errStopping):
		code, err = http.StatusServiceUnavailable, errStopping
	case errors.Is(err, ErrUnknown):
		code = http.StatusNotFound
	case errors.Is(err, ErrInvalid):
		code = http.StatusBadRequest
	case errors.Is(err, ErrBusy), errors.Is(err, replicator.ErrNotServing):
		code = http.StatusConflict
	case errors.Is(err, context.DeadlineExceeded):
		code = http.StatusGatewayTimeout
	case errors.Is(err, ErrStandby):
		code = http.StatusServiceUnavailable
	}
	fail(w, code, err)
}

// read decodes the request's JSON into v. If decoding fails, read answers with the error and returns false. An empty
// body leaves v at its zero value.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	in := json.NewDecoder(r.Body)
	in.DisallowUnknownFields()
	err := in.Decode(v)
	if errors.Is(err, io.EOF) {
		return true
	}
	if err == nil && in.More() {
		err = errors.New("it contains more than one JSON value")
	}
	if err != nil {
		code := http.StatusBadRequest
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			code = http.StatusRequestEntityTooLarge
		}
		fail(w, code, fmt.Errorf("the request's body is not the expected JSON: %w", err))
	}
	return err == nil
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	views, err := s.views(r.Context())
	if err != nil {
		s.failed(w, r, err)
		return
	}
	answer(w, http.StatusOK, statusAnswer{Started: s.started.UTC(), Views: views})
}

// errWaited is the context's cause when a wait reaches its timeout.
var errWaited = errors.New("run `replicator status` to see the progress, or use a longer timeout")

func (s *Server) wait(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for name := range q { // without this check, a misspelt "view" would mean all views
		if !slices.Contains([]string{"gtid", "pos", "view", "timeout", "source"}, name) {
			fail(w, http.StatusBadRequest, fmt.Errorf("unknown parameter %q. Use gtid, pos, view, "+
				"timeout or source", name))
			return
		}
	}
	fence, timeout := q.Get("gtid"), defaultWait
	if pos := q.Get("pos"); (fence == "") == (pos == "") {
		fail(w, http.StatusBadRequest, errors.New("specify what to wait for: either gtid=SET or pos=FILE:POS"))
		return
	} else if pos != "" {
		fence = pos
	}
	if text := q.Get("timeout"); text != "" {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			text += "s"
		}
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 || d > MostWait {
			fail(w, http.StatusBadRequest, fmt.Errorf("timeout: expected a duration up to %s, such as 10s or 10", MostWait))
			return
		}
		timeout = d
	}
	if !s.mayWait(w) {
		return
	}
	defer func() { <-s.waiting }()
	ctx, cancel := context.WithTimeoutCause(r.Context(), timeout, errWaited)
	defer cancel()
	err := s.controller.Wait(ctx, Fence{At: fence, Source: q.Get("source")}, q["view"])
	switch {
	case err == nil:
		answer(w, http.StatusOK, waitAnswer{Included: true})
	case ctx.Err() != nil && r.Context().Err() == nil:
		fail(w, http.StatusGatewayTimeout, fmt.Errorf("views don't include the position after waiting %s: %w",
			timeout.Round(time.Millisecond), err))
	default:
		s.failed(w, r, err)
	}
}

// mayWait takes one of the slots for waiting requests and returns true. The caller releases the slot. If no slot is
// free, mayWait answers with an error and returns false.
func (s *Server) mayWait(w http.ResponseWriter) bool {
	select {
	case s.waiting <- struct{}{}:
		return true
	default:
		fail(w, http.StatusServiceUnavailable, fmt.Errorf("%d requests are waiting. Try again later", mostWaiting))
		return false
	}
}

func (s *Server) rebuild(w http.ResponseWriter, r *http.Request) {
	var how Rebuild
	if read(w, r, &how) {
		s.accepted(w, r, s.controller.Rebuild(r.Context(), r.PathValue("view"), how))
	}
}

func (s *Server) pause(w http.ResponseWriter, r *http.Request) {
	s.accepted(w, r, s.controller.Pause(r.Context(), r.PathValue("view")))
}

func (s *Server) resume(w http.ResponseWriter, r *http.Request) {
	s.accepted(w, r, s.controller.Resume(r.Context(), r.PathValue("view")))
}

func (s *Server) accepted(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		s.failed(w, r, err)
		return
	}
	answer(w, http.StatusAccepted, map[string]string{"view": r.PathValue("view")})
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]bool{"alive": true})
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.ending.Load() {
		answer(w, http.StatusServiceUnavailable, readyAnswer{Reasons: []NotReady{{Reason: "stopping"}}})
		return
	}
	views, err := s.controller.Status(r.Context())
	if err != nil {
		answer(w, http.StatusServiceUnavailable, readyAnswer{Reasons: []NotReady{{Reason: err.Error()}}})
		return
	}
	a := readyAnswer{Ready: true, Reasons: []NotReady{}}
	for _, v := range views {
		if reason := notReady(v); reason != "" {
			a.Ready = false
			a.Reasons = append(a.Reasons, NotReady{View: v.View, Sink: v.Sink, Source: v.Source, Reason: reason})
		}
	}
	code := http.StatusOK
	if !a.Ready {
		code = http.StatusServiceUnavailable
	}
	answer(w, code, a)
}

// notReady returns why a view is not ready, or "" if the view is ready. A view that is being rebuilt is ready as long
// as its old contents are kept up to date.
func notReady(v replicator.ViewStatus) string {
	switch {
	case v.State == replicator.StateMember: // the group member that reads the partition reports whether it is ready
		return ""
	case v.KeptUp() && v.LagSeconds == nil:
		return "its lag is unknown"
	case v.KeptUp():
		return ""
	case v.Error != "":
		return v.State + ": " + v.Error
	case v.Frozen:
		return v.State + ": the view's contents are not kept up to date until the rebuild is done"
	}
	return v.State
}
