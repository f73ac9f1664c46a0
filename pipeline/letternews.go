package pipeline

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"replicator"
)

// letterNews logs dead letters. For each kind (view and reason), it logs the first letter at once, and after that once
// a minute how many more there were. A mutex guards it.
type letterNews struct {
	cfg  *Config
	mu   sync.Mutex
	told map[letterKind]*toldLetters
}

// letterKind groups dead letters by the view and by the stage that refused them (row, evaluate or rejected, as in
// metrics).
type letterKind struct{ view, by string }

// toldLetters says when dead letters of one kind were last logged, and how many came after that.
type toldLetters struct {
	at   time.Time
	more int
}

func newLetterNews(cfg *Config) *letterNews {
	return &letterNews{cfg: cfg, told: map[letterKind]*toldLetters{}}
}

const tellLettersEach = time.Minute

// add counts a dead letter, and logs it if it is the first of its kind. The letter's contents must not be logged.
func (n *letterNews) add(view, by string, l replicator.DeadLetter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	kind := letterKind{view, by}
	if told := n.told[kind]; told != nil {
		told.more++
		return
	}
	n.told[kind] = &toldLetters{at: time.Now()}
	n.cfg.Log.Warn("a change became a dead letter. The view continues without it. See `replicator deadletters list`",
		"sink", n.cfg.Name, "view", view, "kind", by, "table", l.Cell.Table, "key", l.Cell.Key.String(),
		"column", l.Cell.Column, "position", l.Position, "reason", l.Reason)
}

func (n *letterNews) tell() { n.tellThose(tellLettersEach) }

// tellAll logs, at a stop, how many dead letters were not logged yet.
func (n *letterNews) tellAll() { n.tellThose(0) }

func (n *letterNews) tellThose(least time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var due []letterKind
	for kind, told := range n.told {
		if time.Since(told.at) >= least {
			due = append(due, kind)
		}
	}
	slices.SortFunc(due, func(a, b letterKind) int {
		return cmp.Or(cmp.Compare(a.view, b.view), cmp.Compare(a.by, b.by))
	})
	for _, kind := range due {
		told := n.told[kind]
		if told.more == 0 {
			delete(n.told, kind)
			continue
		}
		n.cfg.Log.Warn("more changes became dead letters", "sink", n.cfg.Name, "view", kind.view, "kind", kind.by,
			"count", told.more, "since", time.Since(told.at).Round(time.Second))
		told.at, told.more = time.Now(), 0
	}
}
