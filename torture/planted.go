package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"replicator/internal/launch"
)

// planted is a known bug: a file's original text, and the text with the bug. If no run with the bug fails, torture
// proves nothing.
type planted struct {
	name, file, right, wrong string
	faults                   []string // the faults to choose from, some of which expose the bug; nil: all faults
	elastic                  bool
	kafka                    bool            // the bug only appears with Kafka
	needs                    func(Plan) bool // whether a plan can expose the bug; nil: any plan can
}

func plants() []planted {
	restarts := []string{"kill", "stop", "down", "main link cut", "cache link cut", "huge"}
	return []planted{
		{name: "no version check", file: "op.go", faults: append([]string{"rebuild all", "second", "reset"}, restarts...),
			right: "if op.Order <= s.AsOf || op.Version < s.Version || (op.Version == s.Version && op.Order < s.Order) {",
			wrong: "if op.Order <= s.AsOf {"},
		{name: "a reset that yields does not keep its as-of", file: "op.go",
			faults: []string{heldPut}, needs: has(heldPut),
			right: "return State{Version: s.Version, Order: s.Order, AsOf: op.AsOf}, false", wrong: "return s, false"},
		{name: "a checkpoint before its changes are applied", file: "pipeline/lanes.go", faults: restarts,
			right: "low = min(low, l.low(committed))", wrong: "_ = l"},
		{name: "a session continues from memory, whatever the sink's checkpoint says", file: "pipeline/beginning.go",
			faults: []string{"main set back", "cache set back"},
			right:  "at.Position = saved.Position.Lower(mark.Position)", wrong: "at.Position = saved.Position"},
		{name: "a sink checkpoint that fell is not noticed", file: "sinks/judge/marks.go",
			faults: []string{"main set back", "cache set back", "flush"},
			right:  "if stood.Below(last) {", wrong: "if false {"},
		{name: "no lock of the keys' partitions", file: "sinks/mysql/transaction.go",
			faults: []string{"second", "late second"},
			right:  `l FORCE INDEX (PRIMARY) ON l.id = p.id FOR UPDATE"`, wrong: `l FORCE INDEX (PRIMARY) ON l.id = p.id"`},
		{name: "rows don't wait for the rows that they refer to", file: "sinks/mysql/references.go",
			faults: []string{"rebuild", "kill", "rebuild all"}, needs: func(p Plan) bool { return p.Forest },
			right: "if !is(err, errNoParent, errChildren) ||", wrong: "if true ||"},
		{name: "keys are not padded again", file: "canal/plan.go", right: "if len(raw) < c.Pad {", wrong: "if false {"},
		{name: "an entry that moves to another shard is removed before it is put there",
			file:   "sinks/mysql/shardedapply.go",
			faults: []string{"main link slow", "kill", "rebuild", "second"}, needs: moves,
			right: "[][]judge.Part{put, take} {", wrong: "[][]judge.Part{take, put} {"},
		{name: "a swap counts as done when its answer was lost", file: "sinks/mysql/shadow.go",
			faults: []string{swapAnswer}, needs: has(swapAnswer),
			right: "if err = s.rename(ctx, begun); err != nil {",
			wrong: "if err = s.rename(ctx, begun); errors.As(err, new(*mysql.MySQLError)) {"},
		{name: "a rebuilt view is swapped in before it has joined its siblings", file: "pipeline/swap.go",
			faults: []string{"rebuild"}, needs: rebuildsPair,
			right: "time.Now().Before(b.retryAt) || s.joins(b) {", wrong: "time.Now().Before(b.retryAt) {"},
		{name: "a sink checkpoint of another epoch is not noticed", file: "sinks/judge/marks.go",
			faults: []string{onReplica}, needs: has(onReplica),
			right: "if marked.Position.Epoch() != m.at.Position.Epoch() {", wrong: "if false {"},
		{name: "an older state's epoch is not raised to the sink checkpoint's", file: "pipeline/overtaken.go",
			faults: []string{failover, "old state"}, needs: oldAcrossFailover,
			right: "if by.Epoch() <= c.Position.Epoch() {", wrong: "if true {"},
		{name: "a repair writes in an epoch without a sink checkpoint", file: "service/inspection.go",
			faults: []string{fromReplica, "other table"}, needs: has(fromReplica),
			right: "at.Epoch() != kept.Epoch() {", wrong: "false {"},
		{name: "a key that another shard has is overwritten", file: "sinks/judge/claim.go",
			faults: restarts, needs: Plan.movesKeys,
			right: "yields, heir = leader >= 0, -1", wrong: "yields, heir = false, -1"},
		{name: "another shard's row removes a dead letter", file: "checkpoint/index.go",
			faults: []string{"main link slow", "cache link slow", "other table"}, needs: Plan.movesKeys,
			right: "id = idOf(view, source, c)", wrong: `id = idOf(view, "", c)`},
		{name: "a re-read's as-of is the position of the delete", file: "pipeline/writer.go",
			faults: []string{goneRow}, needs: has(goneRow),
			right: "AsOf: asOf, Rewrite: p.rewrite}\n\t\t\tif row",
			wrong: "AsOf: min(asOf, max(p.deletedAt, 1)), Rewrite: p.rewrite}\n\t\t\tif row"},
		{name: "a Kafka member continues at its own checkpoint, whatever the sink's says",
			file:   "pipeline/beginning.go",
			faults: []string{"main set back", "cache set back"}, kafka: true,
			right: "if changelog && !mark.Filling() && mark.Epoch >= saved.Epoch {",
			wrong: "if changelog && !mark.Filling() && mark.Epoch >= saved.Epoch {\n\t\treturn saved.Standing, nil"},
		{name: "Elasticsearch is written without if_seq_no", file: "sinks/elastic/bulk.go",
			faults: []string{"second", "late second"}, elastic: true,
			right: "if !d.exists {",
			wrong: "if true {\n\t\tb = d.appendAddress(append(b, `{\"index\":{`...))\n\t} else if !d.exists {"},
	}
}

// has returns a condition that is true for plans with this fault.
func has(fault string) func(Plan) bool {
	return func(p Plan) bool { return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Name == fault }) }
}

// rebuildsPair reports whether the plan rebuilds a view of a pair: a row view and an index of the same rows, which the
// reader compares in each snapshot.
func rebuildsPair(p Plan) bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool {
		v := p.Views[int(f.Arg)%len(p.Views)]
		return p.Parts == 1 && f.Name == "rebuild" &&
			slices.ContainsFunc(p.pairs(), func(of pair) bool { return of.row.Name == v.Name || of.index.Name == v.Name })
	})
}

// oldAcrossFailover reports whether a failover begins while the fault "old state" lasts. The end of that fault then
// restores a state that was saved before the failover.
func oldAcrossFailover(p Plan) bool {
	for i, f := range p.Faults[1:] {
		if p.Faults[i].Name == "old state" && f.Name == failover && f.With {
			return true
		}
	}
	return false
}

// moves reports whether rows move between shards in a view without a `where`. The reader polls such views during a run,
// and notices rows that vanish or go back.
func moves(p Plan) bool {
	return slices.ContainsFunc(p.Views, func(v View) bool { return v.Moves && !v.Where })
}

// overlay returns the `go build` overlay that replaces a file of the program by the file with the bug.
func (p planted) overlay(root, dir string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, p.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), p.right); n != 1 {
		return "", fmt.Errorf("%s contains this text %d times, want once: %s", p.file, n, p.right)
	}
	return writeOverlay(dir, map[string]string{path: strings.Replace(string(text), p.right, p.wrong, 1)})
}

// torturePlanted plants one bug after another, and makes runs until each is caught.
func (o options) torturePlanted(ctx context.Context, root string, out io.Writer) error {
	f, err := startFarm(ctx, o.Choices)
	defer f.close()
	if err != nil {
		return err
	}
	missed := 0
	for _, p := range plants() {
		if p.elastic && o.Search == "" || p.kafka != (o.Brokers > 0) || o.only != "" && !strings.Contains(p.name, o.only) {
			continue
		}
		caught, err := o.catch(ctx, f, p, root, out)
		if err != nil {
			return err
		}
		if !caught {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d planted bugs were not caught", missed)
	}
	return nil
}

// catch makes runs of a program with one planted bug, and reports whether one of them failed.
func (o options) catch(ctx context.Context, f *farm, p planted, root string, out io.Writer) (bool, error) {
	dir, err := os.MkdirTemp("", "replicator-planted-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	overlay, err := p.overlay(root, dir)
	if err != nil {
		return false, err
	}
	binary := filepath.Join(dir, "replicator")
	if err := launch.Build(ctx, binary, "-overlay", overlay); err != nil {
		return false, err
	}
	choices := o.Choices
	choices.Faults, choices.Clock = p.faults, false
	began := time.Now()
	seed := o.seed
	for n := range o.plantedRuns() {
		plan := planOf(seed, choices)
		for ; p.needs != nil && !p.needs(plan); plan = planOf(seed, choices) {
			seed++
		}
		seed++
		outcome, err := run(ctx, f, plan, binary, o.patience, o.say(out))
		if err != nil {
			return false, err
		}
		if len(outcome.Wrong) > 0 {
			fmt.Fprintf(out, "caught: %s: run %d, after %s: %s\n", p.name, n+1, time.Since(began).Round(time.Second),
				outcome.Wrong[0])
			return true, nil
		}
	}
	fmt.Fprintf(out, "NOT CAUGHT: %s: %d runs, %s\n", p.name, o.plantedRuns(), time.Since(began).Round(time.Second))
	return false, nil
}

func (o options) plantedRuns() int {
	if o.runs > 0 {
		return o.runs
	}
	return 50
}
