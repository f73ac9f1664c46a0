package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"replicator"
	"replicator/internal/remedy"
)

// planner decides where views begin or continue, by the positions in the store, in the sink and in the source's log.
type planner struct {
	cfg         *Config
	definitions *definitions
	epoch       atomic.Int64 // the highest number of a fill (its start time in microseconds): see nextEpoch
}

// remembered is what the store and the sink know of the views of a source.
type remembered struct {
	source string
	saved  []replicator.Checkpoint // the store's checkpoints, of all sources
	marks  []replicator.Mark       // the views' progress that the sink has, of this source only

	former map[string][]replicator.Mark // by source that is no longer configured: its marks in the sink; nil: not read

	lacking map[string]string // by view: names of the shards of the sink that lack the view, if others have it

	// refilled lists the views that on_lost fills again, by the shards that lack them. A key is a part of a message,
	// such as " in shard a"; "" if no shard has the views.
	refilled map[string][]string
}

// refills records that on_lost fills a view again. where names the shards that lack it, as a key of `refilled` does.
func (r *remembered) refills(view, where string) {
	if r.refilled == nil {
		r.refilled = map[string][]string{}
	}
	r.refilled[where] = append(r.refilled[where], view)
}

func (r *remembered) of(view string) (c *replicator.Checkpoint, m *replicator.Mark) {
	i := slices.IndexFunc(r.saved, func(c replicator.Checkpoint) bool { return c.View == view && c.Source == r.source })
	if i >= 0 {
		c = &r.saved[i]
	}
	if i := slices.IndexFunc(r.marks, func(m replicator.Mark) bool { return m.View == view }); i >= 0 {
		m = &r.marks[i]
	}
	return c, m
}

// rebuilding reports whether a rebuild fills a shadow (second copy of the view) with the view's present definition. A
// shadow that has a checkpoint and no mark doesn't count, because it was already swapped in.
func (r *remembered) rebuilding(v *replicator.View) bool {
	c, m := r.of(v.Name + replicator.ShadowSuffix)
	return c != nil && m != nil && replicator.SameDefinition(c.Fingerprint, v.Fingerprint)
}

// keptFrom returns a source that fed the view and is no longer configured. If the sink was asked for such sources
// (askFormer), its marks decide, otherwise the store's checkpoints.
func (r *remembered) keptFrom(v *replicator.View, feeds func(string) bool) (source string, is bool) {
	for _, source := range slices.Sorted(maps.Keys(r.former)) {
		for _, m := range r.former[source] {
			if m.View == v.Name && (m.Err != nil || replicator.SameDefinition(m.Fingerprint, v.Fingerprint)) {
				return source, true
			}
		}
	}
	for _, c := range r.saved {
		held := func(m replicator.Mark) bool { return m.View == v.Name }
		if c.View == v.Name && !feeds(c.Source) && (r.former == nil || slices.ContainsFunc(r.former[c.Source], held)) {
			return c.Source, true
		}
	}
	return "", false
}

func (r *remembered) positions() (at []replicator.Position) {
	for _, c := range r.saved {
		if c.Source == r.source {
			at = append(at, c.Position)
		}
	}
	for _, m := range r.marks {
		at = append(at, m.Position)
	}
	return at
}

func (p *planner) remember(ctx context.Context) (*remembered, error) {
	known, err := p.marks(ctx)
	if err != nil {
		return nil, err
	}
	if known.saved, err = p.cfg.Store.Checkpoints(ctx); err != nil {
		return nil, fmt.Errorf("reading the checkpoints: %w", err)
	}
	for _, m := range known.marks {
		p.sawEpoch(m.Epoch)
	}
	for _, c := range known.saved {
		p.sawEpoch(c.Epoch)
	}
	return known, nil
}

func (p *planner) marks(ctx context.Context) (*remembered, error) {
	source := p.cfg.Source.Name()
	marks, err := p.cfg.Sink.Marks(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", p.cfg.Name, err)
	}
	known := &remembered{source: source, marks: marks}
	if parted, ok := p.cfg.Sink.(replicator.Parted); ok {
		if known.lacking, err = parted.Lacking(ctx, source); err != nil {
			return nil, fmt.Errorf("sink %s: finding out which shards hold which views: %w", p.cfg.Name, err)
		}
	}
	return known, nil
}

// plan says at which position each view continues, or why it doesn't run.
type plan struct {
	views   []*replicator.View
	at      []replicator.Checkpoint // where the views that run begin, one checkpoint for each
	changed []string                // views to be rebuilt, because their definition changed; until then, they stay
	unread  []*replicator.View      // views whose positions in the sink can't be read
	failed  map[string]error        // by view: why the view does not run
}

// plan decides where each of the views continues: at the lower of its positions in the store and in the sink, or with a
// fill if it has neither.
func (p *planner) plan(ctx context.Context, views []*replicator.View) (*plan, error) {
	known, err := p.remember(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.definitions.update(ctx, views, known); err != nil {
		return nil, err
	}
	if err := p.askFormer(ctx, views, known); err != nil {
		return nil, err
	}
	next := &plan{views: views, failed: map[string]error{}}
	var added, unfilled, lost, reset []*replicator.View
	for _, v := range views {
		c, m := known.of(v.Name)
		at, err := p.goesOnAt(v, known)
		if m != nil && m.Err != nil {
			next.unread = append(next.unread, v)
		}
		switch {
		case errors.Is(err, errChanged):
			next.changed = append(next.changed, v.Name)
		case errors.Is(err, errUnderWay): // nothing to plan: due.resume continues the rebuild
		case err != nil:
			next.failed[v.Name] = p.cfg.ofShard(err)
		case at == nil && c == nil && (m == nil || m.Position.IsZero()):
			added = append(added, v)
		case at == nil && c == nil && m.IsAnew():
			reset = append(reset, v)
		case at == nil && !marked(m):
			lost = append(lost, v)
		case at == nil:
			unfilled = append(unfilled, v)
		default:
			if c != nil && (at.Position.Order < c.Position.Order || at.Filling() != c.Filling()) {
				p.cfg.Log.Info("the sink's mark is before the saved checkpoint, or only one of the two says that the "+
					"view is being filled. Reading begins at the log position \"order\"", "sink", p.cfg.Name,
					"view", v.Name, "order", at.Position.Order, "checkpoint", c.Position.Order,
					"filling", at.Filling())
			}
			if p.mustReplay(c, m, at.Standing) {
				if err := p.replay(ctx, &at.Standing); err != nil {
					return nil, ofPosition(err)
				}
			}
			next.at = append(next.at, *at)
		}
	}
	next.logFailed(p.cfg)
	for where, views := range known.refilled {
		p.cfg.Log.Warn("the sink has lost views"+where+". They are filled again", "sink", p.cfg.Name,
			"views", views)
	}
	for _, begin := range []struct {
		views []*replicator.View
		at    func(context.Context, []*replicator.View, []replicator.Position) (replicator.Checkpoint, error)
	}{{added, p.first}, {unfilled, p.fill}, {lost, p.afterLoss}, {reset, p.afterReset}} {
		if len(begin.views) == 0 {
			continue
		}
		c, err := begin.at(ctx, begin.views, known.positions())
		if err != nil {
			return nil, err
		}
		next.at = append(next.at, eachAt(begin.views, c)...)
	}
	return next, nil
}

func (n *plan) logFailed(cfg *Config) {
	var failed []replicator.ViewStatus
	for _, v := range n.views {
		if err := n.failed[v.Name]; err != nil {
			failed = append(failed, replicator.ViewStatus{View: v.Name, Error: err.Error()})
		}
	}
	for _, cause := range replicator.CausesOf(failed) {
		cfg.Log.Error("views do not run", "sink", cfg.Name, "views", cause.Views, "error", cause.Error)
	}
}

var errChanged = errors.New("its definition changed")

// errUnderWay says that the view does not run until the rebuild in progress is complete.
var errUnderWay = errors.New("a rebuild of it is under way")

// goesOnAt returns where a view continues; nil if it must be filled. If it can't continue, and a rebuild to its present
// definition is in progress, the error wraps errUnderWay. That rebuild continues, even if the setting on_change is no
// longer "rebuild".
func (p *planner) goesOnAt(v *replicator.View, known *remembered) (*replicator.Checkpoint, error) {
	at, err := p.resumeAt(v, known)
	// If the view's mark can't be read, it is unknown whether a rebuild is in progress.
	if _, m := known.of(v.Name); m != nil && m.Err != nil {
		return at, err
	}
	if err != nil && known.rebuilding(v) {
		return nil, errors.Join(errUnderWay, err)
	}
	return at, err
}

// marked reports whether the sink says how far a view has come: a position and, during a fill, the fill's progress. One
// of them is missing if the view was created in the sink and nothing was saved since.
func marked(m *replicator.Mark) bool {
	return m != nil && !m.Position.IsZero() && (!m.Filling() || len(m.Fill) > 0)
}

// resumeAt returns where a view continues, given its checkpoint in the store and its mark in the sink. It returns nil
// if the view must be filled. The error wraps errChanged if the view must be rebuilt.
func (p *planner) resumeAt(v *replicator.View, known *remembered) (*replicator.Checkpoint, error) {
	c, m := known.of(v.Name)
	if m != nil && m.Err != nil {
		return nil, p.cfg.unread(m)
	}
	same := func(fingerprint string) bool { return replicator.SameDefinition(fingerprint, v.Fingerprint) }
	sameSaved, sameMark := c == nil || same(c.Fingerprint), m == nil || same(m.Fingerprint)
	changed := !sameSaved || !sameMark
	atMark := func() *replicator.Checkpoint {
		return &replicator.Checkpoint{
			View: v.Name, Source: p.cfg.Source.Name(), Fingerprint: v.Fingerprint, Standing: m.Standing,
		}
	}
	switch {
	case changed && sameMark && marked(m):
		// The sink is right: the program ended after a swap or the start of a fill, before it saved the checkpoint.
		return atMark(), nil
	case changed && v.OnChange == "rebuild" && m != nil && p.cfg.swaps():
		return nil, errChanged // the view's old contents stay until the new contents are filled
	case changed && v.OnChange == "rebuild":
		return nil, nil
	case !sameSaved:
		return nil, replicator.Redefined(v, c.Fingerprint, v.Fingerprint)
	case !sameMark && c == nil:
		return nil, fmt.Errorf("sink %s has a view of this name with another definition, and no checkpoint is saved "+
			"for that view. If another program maintains it, give one of the two views another name or another "+
			"database. Otherwise, %w", p.cfg.Name, replicator.Redefined(v, m.Fingerprint, v.Fingerprint))
	case !sameMark:
		return nil, replicator.Redefined(v, m.Fingerprint, v.Fingerprint)
	case c == nil && !marked(m):
		return nil, p.displaced(v, known)
	case c == nil:
		return atMark(), nil
	}
	at := *c
	at.Fingerprint = v.Fingerprint
	var err error
	if at.Standing, err = beginning(*c, m, p.cfg.changelog() != nil); err == nil {
		at.Read = later(c.Position, c.Read)
		return &at, nil
	}
	where := known.lacking[v.Name]
	if where != "" {
		where = " in " + where
	}
	if p.cfg.OnLost == "rebuild" {
		known.refills(v.Name, where)
		return nil, nil
	}
	return nil, replicator.Fatal(fmt.Errorf("sink %s no longer has data of the view%s, but a checkpoint says "+
		"that it had. To fill the view again, run %s or set on_lost = \"rebuild\": %w", p.cfg.Name, where,
		p.cfg.anew(viewSet{v}), err))
}

// askFormer asks the sink which removed sources have fed the views, before a new view is filled from a Changelog. The
// processes of a Kafka group share its logs, so this process's store may not know what another process applied.
func (p *planner) askFormer(ctx context.Context, views []*replicator.View, known *remembered) error {
	sink, ok := p.cfg.Sink.(replicator.Sourced)
	begins := func(v *replicator.View) bool { c, m := known.of(v.Name); return c == nil && !marked(m) }
	if !ok || p.cfg.Feeds == nil || p.cfg.changelog() == nil || !slices.ContainsFunc(views, begins) {
		return nil
	}
	sources, err := sink.Sources(ctx)
	known.former = map[string][]replicator.Mark{}
	for _, source := range sources {
		if err == nil && !p.cfg.Feeds(source) {
			known.former[source], err = p.cfg.Sink.Marks(ctx, source)
		}
	}
	if err != nil {
		return fmt.Errorf("sink %s: reading which sources filled its views: %w", p.cfg.Name, err)
	}
	return nil
}

// displaced returns an error if a view would be filled from a source with a different name than before. The former
// source's entries would stay in the sink, and sums would count twice.
func (p *planner) displaced(v *replicator.View, known *remembered) error {
	if p.cfg.Feeds == nil {
		return nil
	}
	from, is := known.keptFrom(v, p.cfg.Feeds)
	if !is {
		return nil
	}
	remedy := "Name the source as before. Or stop the program, run `replicator checkpoint forget %s`, and start " +
		"it again. The view is then filled again"
	if p.cfg.changelog() != nil {
		remedy = "Name the topic as before. Or stop all members, run `replicator checkpoint forget %s` at each, and " +
			"start them. The view is then filled again. If another program fills a view of this name from there, " +
			"give one of the two views another name"
	}
	return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s: it was filled from %s, which is no longer "+
		"configured. Filled from %s as well, it would count sums twice and keep deleted rows. "+remedy,
		v.ShownAs(), sourceNamed(from), sourceNamed(known.source), v.ShownAs())), v.Name)
}

// sourceNamed returns what the configuration calls a source. Only a partition's name has a slash.
func sourceNamed(name string) string {
	switch {
	case name == "":
		return "[source] dsn"
	case strings.Contains(name, "/"):
		return "partition " + name
	}
	return "shard " + name + " of the source"
}

// first returns the checkpoint at which new views begin, as StartAt says.
func (p *planner) first(
	ctx context.Context, views []*replicator.View, known []replicator.Position,
) (c replicator.Checkpoint, err error) {
	c.Source, c.Unmarked = p.cfg.Source.Name(), true
	switch p.cfg.StartAt {
	case "earliest":
		c.Position, err = p.cfg.Source.Oldest(ctx, known)
	case "latest":
		c.Position, err = p.cfg.Source.Latest(ctx, known)
	default:
		return p.fill(ctx, views, known)
	}
	return c, ofPosition(err)
}

// afterReset returns the checkpoint at which views begin after `checkpoint reset`, as StartAt says. If they begin with
// a fill, the fill rewrites their contents.
func (p *planner) afterReset(
	ctx context.Context, views []*replicator.View, known []replicator.Position,
) (replicator.Checkpoint, error) {
	c, err := p.first(ctx, views, known)
	if c.Repair = c.Filling(); !c.Repair {
		c.Epoch = p.nextEpoch() // so that marks from before the reset, which have lower epochs, are ignored
	}
	return c, err
}

// afterLoss returns the checkpoint at which views begin after the sink lost their marks. Some of the views' contents
// may be left, so the fill rewrites every row (Repair).
func (p *planner) afterLoss(
	ctx context.Context, views []*replicator.View, known []replicator.Position,
) (replicator.Checkpoint, error) {
	c, err := p.fill(ctx, views, known)
	c.Repair = true
	return c, err
}

// fill returns the checkpoint of views that are filled from the beginning of their tables. It ignores StartAt, because
// it also serves rebuilds, and views that were lost or redefined.
func (p *planner) fill(
	ctx context.Context, views []*replicator.View, known []replicator.Position,
) (c replicator.Checkpoint, err error) {
	c.Source, c.Unmarked = p.cfg.Source.Name(), true
	c.Letters = true // a fill records all dead letters, so no comparison with the sink's dead cells is needed
	c.Position, err = p.cfg.Source.Latest(ctx, known)
	c.Fill, c.FillFrom, c.Epoch = map[string]replicator.Progress{}, c.Position.Order, p.nextEpoch()
	for _, table := range replicator.Feeding(views) {
		c.Fill[table] = replicator.Progress{}
	}
	if err == nil {
		err = p.replay(ctx, &c.Standing)
	}
	// The error names all views, because any of them may be the cause.
	return c, remedy.Named(ofPosition(err), viewSet(p.cfg.Views).words())
}

// chooseAgain chooses the start position of a new view again, if another replicator, which reads a different server,
// has begun the same view meanwhile.
func (p *planner) chooseAgain(
	ctx context.Context, c *replicator.Checkpoint, m *replicator.Mark, known *remembered,
) error {
	if !c.Unmarked || m == nil || m.Position.IsZero() || m.Position.Epoch() != c.Position.Epoch() ||
		p.cfg.changelog() != nil {
		return nil
	}
	at, err := p.cfg.Source.Latest(ctx, known.positions())
	if err != nil || at.Epoch() <= c.Position.Epoch() {
		return ofPosition(err)
	}
	switch {
	case c.Epoch <= m.Epoch: // continue at the other replicator's mark
		c.Position = m.Position
		return nil
	case c.Filling():
		c.FillFrom = at.Order
	case p.cfg.StartAt == "earliest":
		at, err = p.cfg.Source.Oldest(ctx, known.positions())
	}
	c.Position = at
	return ofPosition(err)
}

// replay sets a new fill's position to the beginning of the log, if the source is a Changelog.
func (p *planner) replay(ctx context.Context, at *replicator.Standing) (err error) {
	if p.cfg.changelog() != nil {
		at.Position, err = p.cfg.Source.Oldest(ctx, []replicator.Position{at.Position})
	}
	return err
}

// mustReplay reports whether a view that is filled from a Changelog must read it from the beginning (see replay). That
// is so if the view's checkpoint c is not of this fill, or if the sink's mark m shows less progress of the fill than c.
// m's position may be beyond what the fill has read, because a mark's position never falls.
func (p *planner) mustReplay(c *replicator.Checkpoint, m *replicator.Mark, at replicator.Standing) bool {
	switch {
	case !at.Filling(), c != nil && c.Unmarked:
		return false
	case c == nil, !c.Filling(), m == nil:
		return true
	}
	return m.Epoch != c.Epoch || m.Below(c.Standing)
}

func ofPosition(err error) error {
	if err != nil {
		err = fmt.Errorf("asking the source for its position: %w", err)
	}
	return err
}

// nextEpoch returns the epoch of a fill that begins now. Such an epoch is the clock time when the fill began, or one
// more than the highest known epoch if the clock was set back.
func (p *planner) nextEpoch() int64 {
	for {
		last := p.epoch.Load()
		next := max(last+1, time.Now().UnixMicro())
		if p.epoch.CompareAndSwap(last, next) {
			return next
		}
	}
}

// sawEpoch records the epoch of an existing fill, so that nextEpoch returns a higher one.
func (p *planner) sawEpoch(epoch int64) {
	for last := p.epoch.Load(); last < epoch && !p.epoch.CompareAndSwap(last, epoch); {
		last = p.epoch.Load()
	}
}
