package replicator

import (
	"slices"
	"strings"
	"time"
)

// State of a view, as status shows it.
const (
	StateStarting   = "starting" // it has not begun, or catches up with the others of its sink and may disagree with them
	StateRunning    = "running"
	StateFilling    = "filling"
	StateRebuilding = "rebuilding"
	StatePaused     = "paused"
	StateRetrying   = "retrying"   // a temporary error: tried again soon
	StateFailed     = "failed"     // somebody must act; tried again every 30 s
	StateStandby    = "standby"    // another process keeps the view; this one waits to take over
	StateMember     = "member"     // another member of the consumer group keeps it with that partition
	StateUnassigned = "unassigned" // no member of the consumer group keeps it with that partition
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
	LagSeconds  *float64 `json:"lag_seconds"`        // how long ago it showed all that was committed; nil: not known
	Rate        float64  `json:"rate"`               // changes applied a second, lately
	DeadLetters int      `json:"dead_letters"`       //
	Error       string   `json:"error"`              // why it is failed or retrying
	Progress    float64  `json:"progress,omitempty"` // of a fill: 0 to 1
	FilledRows  int64    `json:"filled_rows,omitempty"`
	Checkpoint  float64  `json:"checkpoint_age_seconds"`
	Applied     Position `json:"-"`
	ReadLag     *float64 `json:"-"` // LagSeconds, but of a view that is being filled that of following the log

	ErrorSince time.Time  `json:"error_since,omitzero"`  // when Error was first seen
	LastError  *PastError `json:"last_error,omitempty"`  // the latest error that is over; nil: none since the start
	Frozen     bool       `json:"frozen,omitempty"`      // it is rebuilding, and what it shows is not kept up until then
	ETA        *float64   `json:"eta_seconds,omitempty"` // until a fill is done, by how fast it was lately; nil: not known

	Verifying bool `json:"verifying,omitempty"` // it is being compared with its source
	// Format is the source's binlog_format while the view is compared, where it is not ROW: that is why, again and again.
	Format string `json:"binlog_format,omitempty"`
	FanOut int64  `json:"fan_out,omitempty"` // joined rows changed: so many of the cells made with them were read so far

	// Evicted is how many keys, of anybody, the sink's server evicted since the program was started.
	Evicted int64 `json:"evicted_keys,omitempty"`

	// Shared: another replicator, with a store of its own, keeps the view, too. It stays right, and this is hardly ever meant.
	Shared bool `json:"shared,omitempty"`

	// Gone is how many cells that are gone from the source the view's sink still remembered, those of its other views
	// included, when it last looked for some to forget ([limits] deleted); nil: it has not looked since the start.
	Gone *int64 `json:"gone_cells,omitempty"`

	Member string `json:"member,omitempty"`         // of a partition: who has it, by host and process
	Behind *int64 `json:"behind_records,omitempty"` // of a partition: records that are not applied; nil: not known
}

// KeptUp reports whether what the view shows follows its source: it runs, or is rebuilt beside that.
func (s *ViewStatus) KeptUp() bool {
	return s.State == StateRunning || s.State == StateRebuilding && !s.Frozen
}

// Comparing says that the view is being compared with its source, and why; "" if it is not.
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

// Next says what happens next with a view that is in trouble; "" if it is not.
func (s *ViewStatus) Next() string {
	switch {
	case s.State == StateFailed:
		return "it is tried again within 30 s, and goes on once the cause is fixed"
	case s.State == StateRetrying:
		return "it is tried again within 30 s, and goes on once the cause has passed"
	}
	return ""
}

// Cause is an error, and all views that it is the error of.
type Cause struct {
	Error string   // its remedy names all of the views
	State string   // of the first of them
	Views []string // with the source, where it has a name

	text string // Error, as cause gives it
}

// Includes reports whether it is the error of a view.
func (c Cause) Includes(v ViewStatus) bool { return c.text == v.cause() }

// Remedies of one view, and of all that have a cause.
const (
	rebuildOne = "`replicator rebuild "
	rebuildAll = "`replicator rebuild VIEW…"
)

// cause is the view's error without its name, also where a remedy names it.
func (s *ViewStatus) cause() string {
	text := strings.ReplaceAll(s.Error, "view "+s.View+": ", "")
	for _, end := range []string{"`", " -c "} {
		text = strings.ReplaceAll(text, rebuildOne+s.View+end, rebuildAll+end)
	}
	return text
}

// CausesOf are the errors of views: one that several views have is one cause.
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

// PastError is an error of a view that is over.
type PastError struct {
	Error string    `json:"error"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}
