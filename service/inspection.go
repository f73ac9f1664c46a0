package service

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"

	"replicator"
	"replicator/canal"
	"replicator/config"
	"replicator/kafka"
	"replicator/server"
	"replicator/verify"
)

// inspector opens views for looking at, one after the other: each source and each sink once, whatever the number of
// views. What is wrong with one view is that view's alone.
type inspector struct {
	Setup
	sources map[string]*canal.Source // by shard
	sinks   map[string]replicator.Sink
	lent    map[string]replicator.Sink // by pipelines that run: they close them
	cluster *kafka.Cluster             // where the views are fed from Kafka, once it was asked
}

func (s Setup) inspector() *inspector {
	return &inspector{Setup: s, sources: map[string]*canal.Source{}, sinks: map[string]replicator.Sink{}}
}

// source is a shard for looking at the given tables.
func (in *inspector) source(shard config.Shard, tables []replicator.Table) (*canal.Source, error) {
	if in.sources[shard.Name] == nil {
		opened, err := in.Setup.source(shard, nil)
		if err != nil {
			return nil, err
		}
		in.sources[shard.Name] = opened
	}
	return in.sources[shard.Name].For(tables)
}

func (in *inspector) sink(name string) (replicator.Sink, error) {
	if lent := in.lent[name]; lent != nil {
		return lent, nil
	}
	if in.sinks[name] == nil {
		opened, err := in.Setup.sink(name)
		if err != nil {
			return nil, err
		}
		in.sinks[name] = opened
	}
	return in.sinks[name], nil
}

// close closes the sources and the sinks. No inspection may be open.
func (in *inspector) close() error {
	var errs []error
	for _, s := range in.sources {
		errs = append(errs, s.Close())
	}
	for _, s := range in.sinks {
		errs = append(errs, s.Close())
	}
	if in.cluster != nil {
		in.cluster.Close()
	}
	return errors.Join(errs...)
}

// inspection is one view, open on both sides for looking at; with its siblings, if a repair writes these, too.
type inspection struct {
	view       *replicator.View
	views      []*replicator.View // the view and its siblings
	tables     []replicator.Table
	source     *canal.Source
	reader     replicator.Reader
	target     replicator.Target
	partitions *partitioned // what target is made of, if the view is fed from Kafka; else nil
	evaluator  replicator.Evaluator
	known      []replicator.Position // of the source's log, by the view's marks
}

// has reports whether a dead letter of a source is of the inspected shard, or of the topic that the view is fed from.
func (o *inspection) has(source string) bool { return o.partitions != nil || source == o.source.Name() }

// own are those of some dead letters that are of what is inspected.
func (o *inspection) own(letters []server.Letter) (own []server.Letter) {
	for _, l := range letters {
		if o.has(l.Source) {
			own = append(own, l)
		}
	}
	return own
}

// inspect opens a view for looking at: nothing of its progress is touched. What the sink does not let be opened is an
// errUnopened.
func (in *inspector) inspect(
	ctx context.Context, shard config.Shard, view *replicator.View, siblings ...*replicator.View,
) (*inspection, error) {
	o, err := in.prepare(shard, append([]*replicator.View{view}, siblings...))
	if err != nil {
		return nil, err
	}
	sink, err := in.sink(view.Sink)
	if err != nil {
		return nil, err
	}
	err = o.open(ctx, in, shard, sink)
	switch {
	case err == nil:
		return o, o.read(ctx, shard)
	case replicator.IsOfSource(err):
		return nil, reaching(sourceNamed(shard.Name), err)
	case errors.Is(err, verify.ErrUnverifiable): // that names the view
		return nil, errUnopened{err}
	}
	return nil, errUnopened{reaching("view "+view.Name+": sink "+view.Sink, err)}
}

// errUnopened is why a view can't be looked at in its sink.
type errUnopened struct{ error }

func (e errUnopened) Unwrap() error { return e.error }

// inspectSource opens what feeds a view alone: its target is nil.
func (in *inspector) inspectSource(ctx context.Context, shard config.Shard,
	view *replicator.View) (*inspection, error) {
	o, err := in.prepare(shard, []*replicator.View{view})
	if err != nil {
		return nil, err
	}
	return o, o.read(ctx, shard)
}

// prepare is a view and its siblings, open on neither side.
func (in *inspector) prepare(shard config.Shard, views []*replicator.View) (*inspection, error) {
	o := &inspection{view: views[0], views: views}
	var err error
	if o.tables, err = tablesOf(in.Config, shard, views); err != nil {
		return nil, err
	}
	if o.evaluator, err = compile(in.Config, views, o.tables); err != nil {
		return nil, err
	}
	o.source, err = in.source(shard, o.tables)
	return o, err
}

// read opens the source at its present end, above all that is known of its log.
func (o *inspection) read(ctx context.Context, shard config.Shard) error {
	at, err := o.source.Latest(ctx, o.known)
	if err == nil {
		o.reader, err = o.source.Open(ctx, []replicator.Position{at})
	}
	return reaching(sourceNamed(shard.Name), err)
}

// mayRepair is an error where a repair would write in an epoch that no mark of the view has: all that is applied later
// would be stale. A replica of the source has one of its own, as the source has after a failover until it is followed.
func (o *inspection) mayRepair() error {
	if len(o.known) == 0 {
		return fmt.Errorf("view %s: it can't be repaired, because it was never filled. `replicator run` fills it", o.view.Name)
	}
	kept := slices.MaxFunc(o.known, func(a, b replicator.Position) int { return cmp.Compare(a.Order, b.Order) })
	if at := o.reader.Start(); at.Epoch() != kept.Epoch() {
		return fmt.Errorf("view %s: it can't be repaired from the log of server %s: it is kept up from another log, of server "+
			"%s, and would ignore every later change of a repaired cell. Name the server that `replicator run` reads in "+
			"[source] dsn; after a failover or a RESET, repair once `replicator status` shows the view as running",
			o.view.Name, canal.Server(at.Token), canal.Server(kept.Token))
	}
	return nil
}

// sourceNamed is what a source is called in an error.
func sourceNamed(shard string) string {
	if shard == "" {
		return "source"
	}
	return "source " + shard
}

// reaching says which server an error is of, and what to do if it can't be reached.
func reaching(server string, err error) error {
	switch {
	case err == nil:
		return nil
	case unreached(err):
		return fmt.Errorf("%s: %w: is it running, and is its address right? `replicator check` asks every server",
			server, err)
	}
	return fmt.Errorf("%s: %w", server, err)
}

// unreached reports whether a server was not reached: what it would have said is not known. What stands before a server
// that is down may take a connection and close it.
func unreached(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)
}

// open opens the views in their sink, and notes what was applied of the source's log: a repair must not stand before.
func (o *inspection) open(ctx context.Context, in *inspector, shard config.Shard, sink replicator.Sink) error {
	if in.Config.Source.Kafka != nil {
		return o.openTopic(ctx, in, shard, sink, o.views)
	}
	marks, err := sink.Marks(ctx, shard.Name)
	if err != nil {
		return err
	}
	if o.view, o.target, err = look(ctx, o.source, sink, o.views, marks); err != nil {
		return err
	}
	o.know(marks, func(p replicator.Position) replicator.Position { return p })
	return nil
}

// know notes what the view's marks say of the log that feeds it.
func (o *inspection) know(marks []replicator.Mark, origin func(replicator.Position) replicator.Position) {
	for _, m := range marks {
		if p := origin(m.Position); m.View == o.view.Name && !p.IsZero() {
			o.known = append(o.known, p)
		}
	}
}

// look opens views as they are fed by a source, and returns the first.
func look(ctx context.Context, source replicator.Source, sink replicator.Sink, views []*replicator.View,
	marks []replicator.Mark) (*replicator.View, replicator.Target, error) {
	views, err := asMarked(ctx, source, views, marks)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range views {
		if err := mayLookAt(v, marks); err != nil {
			return nil, nil, err
		}
	}
	open := sink.Open
	if l, ok := sink.(replicator.Looker); ok {
		open = l.Look
	}
	target, err := open(ctx, source.Name(), views)
	return views[0], target, err
}

// asMarked are views with the fingerprints that they have with the source's tables: those that the sink knows them by,
// where they mean the same.
func asMarked(ctx context.Context, source replicator.Source, views []*replicator.View,
	marks []replicator.Mark) ([]*replicator.View, error) {
	own := clones(views)
	for _, v := range own {
		identities, err := source.Identities(ctx, replicator.TablesOf([]*replicator.View{v}))
		if err != nil {
			return nil, replicator.OfSource(err)
		}
		v.Fingerprint = replicator.DefinedOn(v, identities)
		for _, m := range marks {
			if m.View == v.Name && replicator.SameDefinition(m.Fingerprint, v.Fingerprint) {
				v.Fingerprint = m.Fingerprint
			}
		}
	}
	return own, nil
}

// mayLookAt refuses what opening a view would change: a sink begins a view anew whose definition is another one, a
// counter that it does not know, and what lives in several shards in those that do not know it. Of documents it would
// put an empty index behind the alias of one that was deleted, and who reads would find nothing instead of an error.
func mayLookAt(v *replicator.View, marks []replicator.Mark) error {
	i := slices.IndexFunc(marks, func(m replicator.Mark) bool { return m.View == v.Name })
	switch {
	case i >= 0 && !replicator.SameDefinition(marks[i].Fingerprint, v.Fingerprint):
		return fmt.Errorf("%w: %w", verify.ErrUnverifiable, replicator.Redefined(v, marks[i].Fingerprint, v.Fingerprint))
	case i < 0 && v.Spread():
		return fmt.Errorf("view %s: %w: it was never filled, or a shard of its sink lost it", v.Name, verify.ErrUnverifiable)
	case i < 0 && v.Kind == "counter":
		return fmt.Errorf("view %s: %w: it was never filled", v.Name, verify.ErrUnverifiable)
	case i < 0 && v.Kind == "document":
		return fmt.Errorf("view %s: %w: it was never filled, or its index was deleted", v.Name, verify.ErrUnverifiable)
	}
	return nil
}

func (o *inspection) close() error { return o.reader.Close() }
