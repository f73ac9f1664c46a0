package replicator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// What one cell of a table is, and what its versions are, the configuration alone doesn't say: the types and collations of the
// key columns are the source's, and where its unique keys leave a cell one row, the place in the log is the version, whatever
// the version column says. Under another rule a view's states and entries mean nothing. So it is part of the view's definition,
// and kept in its fingerprint: "<the file's part>.<its tables' part>". A fingerprint without the second part, as the file alone
// gives it, agrees with any.

// Identifier is a Source that can say what one cell and one version of its tables are.
type Identifier interface {
	// Identities says it of each table as the source has it now: equal texts mean that cells and versions are the same. The first
	// byte stands for what the versions are, the rest for the cells; what follows NamesGiven, if anything, only for a view of all
	// columns. A table that can't be read is left out: whoever opens it
	// learns why.
	Identities(ctx context.Context, tables []string) (map[string]string, error)
}

// KeyComparer is a Source whose tables may have keys of different types.
type KeyComparer interface {
	// SameKeys fails where one key of one of the tables is not the same key of another one: a number and a text, say, or texts that
	// one column takes for one and the other tells apart. The error names both columns.
	SameKeys(ctx context.Context, tables []string) error
}

// NamesGiven begins what of an Identity only concerns views of all columns.
const NamesGiven = "\n"

// ErrRedefined: what one cell or one version of a table is has changed at the source.
var ErrRedefined = errors.New("what it reads is something else since it was filled")

// ErrOtherKeys: two tables have keys that are never the same.
var ErrOtherKeys = errors.New("one key of a table is not the same key of the other")

// identityBytes is how long a table's part of a fingerprint is: a byte for the versions, and a hash of all.
const identityBytes = 9

// SameDefinition reports whether two fingerprints are of one definition.
func SameDefinition(a, b string) bool {
	definition, on, known := strings.Cut(a, ".")
	other, otherOn, otherKnown := strings.Cut(b, ".")
	return definition == other && (!known || !otherKnown || on == otherOn)
}

// DefinedOn is the fingerprint of a view with what its tables are; without, where one of them is not known.
func DefinedOn(v *View, identities map[string]string) string {
	fingerprint, _, _ := strings.Cut(v.Fingerprint, ".")
	var on strings.Builder
	for _, table := range tablesOf([]*View{v}) {
		identity := identities[table]
		if identity == "" {
			return fingerprint
		}
		if !slices.Contains(v.From, Feed{Table: table}) {
			identity, _, _ = strings.Cut(identity, NamesGiven)
		}
		hash := sha256.Sum256([]byte(identity))
		fmt.Fprintf(&on, "%s%x", identity[:1], hash[:identityBytes/2])
	}
	return fingerprint + "." + on.String()
}

// Redefined says what of a view's definition is another than when it was filled: was and now are its fingerprints. The error is nil
// where they are the same; it wraps ErrRedefined where it is a table that changed.
func Redefined(v *View, was, now string) error {
	if SameDefinition(was, now) {
		return nil
	}
	wayOut := fmt.Sprintf("`replicator rebuild %s` fills it anew, on_change = \"rebuild\" does so by itself, or restore ", v.shownAs())
	_, before, _ := strings.Cut(was, ".")
	_, after, _ := strings.Cut(now, ".")
	tables := tablesOf([]*View{v})
	if len(before) != len(tables)*identityBytes || len(after) != len(before) {
		before = after
	}
	for i, table := range tables {
		old, is := before[min(len(before), i*identityBytes):], after[min(len(after), i*identityBytes):]
		if old == "" || old[:identityBytes] == is[:identityBytes] {
			continue
		}
		return OfView(Fatal(fmt.Errorf("view %s: %w: in table %s %s; %sthe table", v.shownAs(), ErrRedefined, table, altered(old, is), wayOut)), v.Name)
	}
	return OfView(Fatal(fmt.Errorf("view %s: its definition changed since it was filled; %sthe definition", v.shownAs(), wayOut)), v.Name)
}

// RedefinedTable is the error of a Reader that meets an ALTER after which a table has another Identity; nil if it has the same,
// or none.
func RedefinedTable(table, was, now string) error {
	if was == now || was == "" || now == "" { // without one of its columns it can't be read, which is said elsewhere
		return nil
	}
	return OfTable(table, Fatal(fmt.Errorf("%w: in table %s %s; `replicator rebuild` fills the views that read it anew, on_change = \"rebuild\" does so by "+
		"itself, or restore the table", ErrRedefined, table, altered(was, now))))
}

// altered says what an ALTER did that makes one Identity another.
func altered(was, now string) string {
	if was[0] != now[0] {
		return "a unique key on its cells was added or dropped, or its version column has another type: versions are other numbers"
	}
	return "a column that makes its cells has another type or collation: keys are others"
}

// identify gives views the fingerprints that they have with what their tables are now. One that the sink or the store knows, and
// that means the same, is kept as they know it.
func (p *Pipeline) identify(ctx context.Context, views []*View, saved []Checkpoint, marks []Mark) error {
	now, err := p.definitions(ctx, views)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, v := range views {
		v.Fingerprint = now[i]
		c, m := find(saved, marks, v.Name, p.Source.Name())
		switch {
		case m != nil && SameDefinition(m.Fingerprint, v.Fingerprint):
			v.Fingerprint = m.Fingerprint
		case m == nil && c != nil && SameDefinition(c.Fingerprint, v.Fingerprint):
			v.Fingerprint = c.Fingerprint
		}
	}
	return nil
}

// definitions are the fingerprints of views as their tables are now.
func (p *Pipeline) definitions(ctx context.Context, views []*View) ([]string, error) {
	now := make([]string, len(views))
	var identities map[string]string
	source, ok := p.Source.(Identifier)
	if ok {
		var err error
		if identities, err = source.Identities(ctx, tablesOf(views)); err != nil {
			return nil, fmt.Errorf("asking the source what its tables are: %w", err)
		}
	}
	for i, v := range views {
		now[i] = v.Fingerprint
		if ok {
			now[i] = DefinedOn(v, identities)
		}
	}
	return now, nil
}

// sameTables fails where a table is no longer what a view's fingerprint says. Whoever asks has opened a reader before: what that
// meets is what the table is now, or an ALTER on the way.
func (r *run) sameTables(ctx context.Context) error {
	now, err := r.pipeline.definitions(ctx, r.views)
	if err != nil {
		return err
	}
	var changed []error
	for i, v := range r.views {
		refused, err := r.pipeline.sameKeys(ctx, v)
		if err != nil {
			return err
		}
		changed = append(changed, Redefined(v, v.Fingerprint, now[i]), refused)
	}
	return errors.Join(changed...)
}

// sameKeys refuses a view that merges what two tables have of an entity where their keys are never the same: it would hold two entities
// in one place, and each would take away what the other has there.
func (p *Pipeline) sameKeys(ctx context.Context, v *View) (refused, err error) {
	source, ok := p.Source.(KeyComparer)
	tables := tablesOf([]*View{v})
	if !ok || len(tables) < 2 || v.Kind == "counter" || v.Kind == "ranking" { // these add up, whatever the key
		return nil, nil
	}
	if err = source.SameKeys(ctx, tables); !errors.Is(err, ErrOtherKeys) {
		return nil, err
	}
	return OfView(Fatal(fmt.Errorf("view %s: it can't merge what it is made from: %w; give both columns one type, or make a view of each", v.shownAs(),
		err)), v.Name), nil
}

// redefine gives views whose tables have become something else their new fingerprints. They are taken out of their runs, which
// can't go on, and are failed until a rebuild of them is done.
func (p *Pipeline) redefine(ctx context.Context, views []*View) error {
	now, err := p.definitions(ctx, views)
	if err != nil {
		return err
	}
	failed := map[string]error{}
	fresh := map[*View]string{}
	var changed []*View
	for i, v := range views {
		if err := Redefined(v, v.Fingerprint, now[i]); err != nil {
			changed, failed[v.Name], fresh[v] = append(changed, v), err, now[i]
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if _, err := p.takeOut(ctx, changed); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range changed {
		v.Fingerprint, p.failed[v.Name] = fresh[v], failed[v.Name]
	}
	return nil
}

// redefined reports whether the run failed because a table has become something else.
func (r *run) redefined() bool {
	_, err := r.trouble()
	return errors.Is(err, ErrRedefined)
}

// rebuildRedefined has those views rebuilt whose tables have become something else while they ran, where their on_change says so.
// The others stay failed until somebody acts.
func (p *Pipeline) rebuildRedefined(ctx context.Context) {
	p.mu.Lock()
	var candidates []*View
	for _, r := range p.runs {
		if !r.redefined() {
			continue
		}
		for _, v := range p.Views {
			runs := func(own *View) bool { return own.Name == v.Name || own.Shadows == v.Name }
			if v.OnChange == "rebuild" && !slices.Contains(p.changed, v.Name) && slices.ContainsFunc(r.views, runs) {
				candidates = append(candidates, v)
			}
		}
	}
	p.mu.Unlock()
	if len(candidates) == 0 {
		return
	}
	now, err := p.definitions(ctx, candidates)
	if err != nil {
		return // the run says why it doesn't go on; it is asked again in a moment
	}
	for i, v := range candidates {
		if Redefined(v, v.Fingerprint, now[i]) != nil {
			p.changed, p.takenUp = append(p.changed, v.Name), false
		}
	}
}
