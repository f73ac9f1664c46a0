package replicator

import (
	"slices"
	"strings"
	"time"
)

// The states of a view, as status shows them.
const (
	StateStarting   = "starting" // the view is not running yet, or is catching up with the sink's other views
	StateRunning    = "running"
	StateFilling    = "filling"
	StateRebuilding = "rebuilding"
	StatePaused     = "paused"
	StateRetrying   = "retrying"   // a temporary error: tried again within 30 s
	StateFailed     = "failed"     // an operator must act; a view that ran before is tried again within 30 s anyway
	StateStandby    = "standby"    // another process maintains the view; this one waits to take over
	StateMember     = "member"     // another member of the consumer group maintains the view for this partition
	StateUnassigned = "unassigned" // no member of the consumer group maintains the view for this partition
)

// ViewStatus is what status, the HTTP API and metrics report of one view and one source.
type ViewStatus struct {
	View        string   `json:"view"`
	Sink        string   `json:"sink"`
	Source      string   `json:"source,omitempty"` // the shard's name
	Kind        string   `json:"kind"`
	Definition  string   `json:"definition,omitempty"` // a hash of the view's definition and of its tables' definitions
	State       string   `json:"state"`
	Position    string   `json:"position"`    // FILE:POS up to which changes were applied
	LagSeconds  *float64 `json:"lag_seconds"` // seconds since the view last showed all that was committed; nil: unknown
	Rate        float64  `json:"rate"`        // recently applied changes per second
	DeadLetters int      `json:"dead_letters"`
	Error       string   `json:"error"`              // why the view is failed or retrying
	Progress    float64  `json:"progress,omitempty"` // the fill's progress, from 0 to 1
	FilledRows  int64    `json:"filled_rows,omitempty"`
	Checkpoint  float64  `json:"checkpoint_age_seconds"`
	Applied     Position `json:"-"`
	ReadLag     *float64 `json:"-"` // like LagSeconds, but during a fill it is only the lag of reading the log

	ErrorSince time.Time  `json:"error_since,omitzero"`
	LastError  *PastError `json:"last_error,omitempty"`  // the view's latest error that has ended; nil: none so far
	Frozen     bool       `json:"frozen,omitempty"`      // readers see old contents until the view is rebuilt
	ETA        *float64   `json:"eta_seconds,omitempty"` // seconds until the fill ends at its recent rate; nil: unknown

	Verifying bool `json:"verifying,omitempty"` // the view is being compared with its source
	// Format is the source's binlog_format, if it is not ROW and the view is being compared. The log then keeps missing
	// changes, so the view is compared again and again.
	Format string `json:"binlog_format,omitempty"`
	FanOut int64  `json:"fan_out,omitempty"` // number of cells re-read so far because joined rows changed

	// Evicted is how many keys, of any program, the sink's server evicted since this program was started.
	Evicted int64 `json:"evicted_keys,omitempty"`

	// Shared: another replicator, with another store, also maintains the view. The view stays right, but this is rarely
	// intended.
	Shared bool `json:"shared,omitempty"`

	// Gone is the number of deleted cells of which the sink still has states, for all of its views, as counted by the
	// last pass that removes such states ([limits] deleted); nil: no pass since the program started.
	Gone *int64 `json:"gone_cells,omitempty"`

	Member string `json:"member,omitempty"`         // host and process of the group member that reads the partition
	Behind *int64 `json:"behind_records,omitempty"` // number of the partition's records not yet applied; nil: unknown
}

// KeptUp reports whether readers see current contents: the view runs, or a second copy of it is rebuilt while readers
// see the live one.
func (s *ViewStatus) KeptUp() bool {
	return s.State == StateRunning || s.State == StateRebuilding && !s.Frozen
}

// Comparing says why the view is being compared with its source; "" if it is not.
func (s *ViewStatus) Comparing() string {
	switch {
	case !s.Verifying:
		return ""
	case s.Format != "":
		return "compared with the source again and again, because its binlog_format is " + s.Format +
			". SET GLOBAL binlog_format = ROW ends that, once the sessions that are open now have ended"
	}
	return "being compared with the source, because the log does not list every change"
}

// Next says what happens next with a view that is failed or retrying; "" if it is in another state.
func (s *ViewStatus) Next() string {
	switch {
	case s.State == StateFailed:
		return "fix the cause. If the view ran before, it is tried again within 30 s; if a start refused it, " +
			"restart or reload the program"
	case s.State == StateRetrying:
		return "it is tried again within 30 s, and goes on once the cause has passed"
	}
	return ""
}

// Cause is an error, and all views that have it.
type Cause struct {
	Error string   // the error's text; if it suggests a `replicator rebuild`, that command names all of the views
	State string   // the state of the view that Views names first
	Views []string // the views' names, each with the source's name if there is one

	text string // the error without the names of views, so it is the same for all of Views
}

func (c Cause) Includes(v ViewStatus) bool { return c.text == v.cause() }

// The commands that remedy an error, for one view and for all views of a Cause.
const (
	rebuildOne = "`replicator rebuild "
	rebuildAll = "`replicator rebuild VIEW…"
)

// cause returns the view's error without the view's name, so that views with the same error have equal texts. In the
// command that remedies the error, the name becomes VIEW….
func (s *ViewStatus) cause() string {
	text := strings.ReplaceAll(s.Error, "view "+s.View+": ", "")
	for _, end := range []string{"`", " -c "} {
		text = strings.ReplaceAll(text, rebuildOne+s.View+end, rebuildAll+end)
	}
	return text
}

// CausesOf groups views by error. Views with the same error share one Cause.
func CausesOf(views []ViewStatus) (causes []Cause) {
	named := map[string][]string{} // the names of each Cause's views, without repetition, by Cause.text
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

// PastError is an error that a view had, and that has passed.
type PastError struct {
	Error string    `json:"error"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}
