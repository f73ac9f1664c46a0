package replicator

// State of a view, as status shows it.
const (
	StateStarting   = "starting"
	StateRunning    = "running"
	StateFilling    = "filling"
	StateRebuilding = "rebuilding"
	StatePaused     = "paused"
	StateRetrying   = "retrying" // a temporary error: tried again soon
	StateFailed     = "failed"   // somebody must act; tried again every 30 s
)

// ViewStatus is what status, the HTTP API and metrics say of one view and one source.
type ViewStatus struct {
	View        string   `json:"view"`
	Sink        string   `json:"sink"`
	Source      string   `json:"source,omitempty"` // the shard's name
	Kind        string   `json:"kind"`
	State       string   `json:"state"`
	Position    string   `json:"position"`           // applied; FILE:POS
	LagSeconds  *float64 `json:"lag_seconds"`        // nil: not known
	Rate        float64  `json:"rate"`               // changes applied a second, lately
	DeadLetters int      `json:"dead_letters"`       //
	Error       string   `json:"error"`              // why it is failed or retrying
	Progress    float64  `json:"progress,omitempty"` // of a fill: 0 to 1
	FilledRows  int64    `json:"filled_rows,omitempty"`
	Checkpoint  float64  `json:"checkpoint_age_seconds"`
	Applied     Position `json:"-"`
}
