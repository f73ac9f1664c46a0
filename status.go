package replicator

import (
	"slices"
	"strings"
	"time"
)

// The states of a view, as status shows them.
const (
	StateStarting   = "starting" // it has not begun, or it catches up with the other views of its sink and may disagree with them
	StateRunning    = "running"
	StateFilling    = "filling"
	StateRebuilding = "rebuilding"
	StatePaused     = "paused"
	StateRetrying   = "retrying"   // a temporary error: tried again soon
	StateFailed     = "failed"     // an operator must act; tried again every 30 s
	StateStandby    = "standby"    // another process keeps the view; this one waits to take over
	StateMember     = "member"     // another member of the consumer group keeps it for that partition
	StateUnassigned = "unassigned" // no member of the consumer group keeps it for that partition
)

// ViewStatus is what status, the HTTP API and metrics say of one view and one source.
type ViewStatus struct {
	View        string   `json:"view"`
	Sink        string   `json:"sink"`
	Source      string   `json:"source,omitempty"` // the shard's name
	Kind        string   `json:"kind"`
	Definition  string   `json:"definition,omitempty"` // the fingerprint that it runs with
	State       string   `json:"state"`
	Position    string   `json:"position"`           // applied; FILE:POS
	LagSeconds  *float64 `json:"lag_seconds"`        // how long ago it showed everything that was committed; nil: unknown
	Rate        float64  `json:"rate"`               // changes applied a second, lately
	DeadLetters int      `json:"dead_letters"`       //
	Error       string   `json:"error"`              // why it is failed or retrying
	Progress    float64  `json:"progress,omitempty"` // of a fill: 0 to 1
	FilledRows  int64    `json:"filled_rows,omitempty"`
	Checkpoint  float64  `json:"checkpoint_age_seconds"`
	Applied     Position `json:"-"`
	ReadLag     *float64 `json:"-"` // LagSeconds, but while the view is filled that of following the log

	ErrorSince time.Time  `json:"error_since,omitzero"`  // when Error was first seen
	LastError  *PastError `json:"last_error,omitempty"`  // the latest error that has ended; nil: none since the start
	Frozen     bool       `json:"frozen,omitempty"`      // it is rebuilding, and its visible contents are not updated until then
	ETA        *float64   `json:"eta_seconds,omitempty"` // until a fill is done, at its recent rate; nil: unknown

	Verifying bool `json:"verifying,omitempty"` // it is being compared with its source
	// Format is the source's binlog_format while the view is compared, if it is not ROW. That is why the comparison
	// repeats.
	Format string `json:"binlog_format,omitempty"`
	FanOut int64  `json:"fan_out,omitempty"` // how many of the cells to re-read after changes of joined rows were read so far

	// Evicted is the number of keys, of any program, that the sink's server evicted since this program was started.
	Evicted int64 `json:"evicted_keys,omitempty"`

	// Shared: another replicator, with a store of its own, keeps the view too. The view stays right, but this is rarely
	// intended.
	Shared bool `json:"shared,omitempty"`

	// Gone is the number of cells that are gone from the source and that the view's sink still remembers, for all of
	// its views, as of the last walk ([limits] deleted); nil: there was none since the start.
	Gone *int64 `json:"gone_cells,omitempty"`

	Member string `json:"member,omitempty"`         // of a partition: the member that has it, by host and process
	Behind *int64 `json:"behind_records,omitempty"` // of a partition: records that are not applied; nil: unknown
}

// KeptUp reports whether the view's visible contents follow its source: it runs, or is rebuilt beside the live view.
func (s *ViewStatus) KeptUp() bool {
	return s.State == StateRunning || s.State == StateRebuilding && !s.Frozen
}

// Comparing says that the view is being compared with its source, and why; "" otherwise.
func (s *ViewStatus) Comparing() string {
	switch {
	case !s.Verifying:
		return ""
	case s.Format != "":
		return "compared with the source again and again: its binlog_format is " + s.Format +
			", SET GLOBAL binlog_format = ROW ends that (sessions that are open keep theirs)"
	}
	return "being compared with the source: the log does not list all that changed"
}

// Next says what happens next with a view in trouble; "" if it is not.
func (s *ViewStatus) Next() string {
	switch {
	case s.State == StateFailed:
		return "it is tried again within 30 s, and goes on once the cause is fixed"
	case s.State == StateRetrying:
		return "it is tried again within 30 s, and goes on once the cause has passed"
	}
	return ""
}

// Cause is an error, and all views that have it.
type Cause struct {
	Error string   // its remedy names all of the views
	State string   // of the first of them
	Views []string // with the source, where it has a name

	text string // Error, as cause gives it
}

// Includes reports whether the view has this error.
func (c Cause) Includes(v ViewStatus) bool { return c.text == v.cause() }

// Remedies for one view, and for all views that have a cause.
const (
	rebuildOne = "`replicator rebuild "
	rebuildAll = "`replicator rebuild VIEW…"
)

// cause is the view's error without its name. The name is also removed from the remedy.
func (s *ViewStatus) cause() string {
	text := strings.ReplaceAll(s.Error, "view "+s.View+": ", "")
	for _, end := range []string{"`", " -c "} {
		text = strings.ReplaceAll(text, rebuildOne+s.View+end, rebuildAll+end)
	}
	return text
}

// CausesOf groups views by error: if several views have one error, it is one cause.
func CausesOf(views []ViewStatus) (causes []Cause) {
	named := map[string][]string{} // by a cause's text: its views, each once
	for _, v := range views {
		text, name := v.cause(), v.View
		if text == "" {
			continue
		}
		if !slices.Contains(named[text], name) {
			named[text] = append(named[text], name)
		}
		if v.Source != "" {
			name += " (" + v.Source + ")"
		}
		i := slices.IndexFunc(causes, func(c Cause) bool { return c.text == text })
		if i < 0 {
			causes = append(causes, Cause{State: v.State, text: text})
			i = len(causes) - 1
		}
		causes[i].Views = append(causes[i].Views, name)
	}
	for i := range causes {
		c := &causes[i]
		c.Error = strings.ReplaceAll(c.text, rebuildAll, rebuildOne+strings.Join(named[c.text], " "))
	}
	return causes
}

// PastError is an error of a view that has ended.
type PastError struct {
	Error string    `json:"error"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}
