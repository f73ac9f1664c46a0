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

// inspector opens views for inspection and repair. It opens each source and each sink only once, also for several
// views.
type inspector struct {
	Setup
	sources map[string]*canal.Source
	sinks   map[string]replicator.Sink
	lent    map[string]replicator.Sink // sinks, by name, that a running pipeline has opened and will close
	cluster *kafka.Cluster             // nil until a view with a source in Kafka is opened
}

func (s Setup) inspector() *inspector {
	return &inspector{Setup: s, sources: map[string]*canal.Source{}, sinks: map[string]replicator.Sink{}}
}

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

// close closes the sources and sinks that the inspector opened. Close all inspections first, because they use them.
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

// inspection is one view that is opened in its source and its sink.
type inspection struct {
	view       *replicator.View
	views      []*replicator.View // `view` and, for a repair, the other views of its sink that the repair writes to
	tables     []replicator.Table
	source     *canal.Source
	reader     replicator.Reader
	target     replicator.Target
	partitions *partitioned // the topic's partitions, which `target` combines; nil if the source is not in Kafka
	evaluator  replicator.Evaluator
	known      []replicator.Position // binlog positions of the view, from the checkpoints that the sink keeps
}

// has reports whether a dead letter of this source belongs to the shard or topic that the inspection reads.
func (o *inspection) has(source string) bool { return o.partitions != nil || source == o.source.Name() }

// own returns the dead letters that come from the shard or topic that this inspection reads.
func (o *inspection) own(letters []server.Letter) (own []server.Letter) {
	for _, l := range letters {
		if o.has(l.Source) {
			own = append(own, l)
		}
	}
	return own
}

// inspect opens a view in its source and its sink, and doesn't change the view's saved position. If the sink can't be
// opened, the error is an errUnopened.
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
	case errors.Is(err, verify.ErrUnverifiable): // add no view name: err already has it
		return nil, errUnopened{err}
	}
	return nil, errUnopened{reaching("view "+view.Name+": sink "+view.Sink, err)}
}

// errUnopened wraps the reason why a view can't be opened in its sink.
type errUnopened struct{ error }

func (e errUnopened) Unwrap() error { return e.error }

// inspectSource opens a view only in its source. The inspection's target is nil.
func (in *inspector) inspectSource(ctx context.Context, shard config.Shard,
	view *replicator.View) (*inspection, error) {
	o, err := in.prepare(shard, []*replicator.View{view})
	if err != nil {
		return nil, err
	}
	return o, o.read(ctx, shard)
}

// prepare returns an inspection of views[0] whose reader and target are not open yet. A repair of views[0] also writes
// the other views.
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

// read opens the source at the current end of its binlog. The end's position is higher than all positions in `o.known`,
// even if the source has begun another binlog since then.
func (o *inspection) read(ctx context.Context, shard config.Shard) error {
	at, err := o.source.Latest(ctx, o.known)
	if err == nil {
		o.reader, err = o.source.Open(ctx, []replicator.Position{at})
	}
	return reaching(sourceNamed(shard.Name), err)
}

// mayRepair returns an error if a repair would write log positions of another epoch than the view's. The sink would
// then treat all later changes as stale. A source gets a new epoch when it moves to another server or begins a new log.
func (o *inspection) mayRepair() error {
	if len(o.known) == 0 {
		return fmt.Errorf("can't repair view %s, because it was never filled. `replicator run` fills it", o.view.Name)
	}
	kept := slices.MaxFunc(o.known, func(a, b replicator.Position) int { return cmp.Compare(a.Order, b.Order) })
	if at := o.reader.Start(); at.Epoch() != kept.Epoch() {
		return fmt.Errorf("can't repair view %s: this command reads the log of server %s, but the view is kept up "+
			"from another log, of server %s. The view would ignore later changes of a repaired cell. Set [source] dsn "+
			"to the server that `replicator run` reads. After a failover or a RESET, wait until `replicator status` "+
			"says running",
			o.view.Name, canal.Server(at.Token), canal.Server(kept.Token))
	}
	return nil
}

func sourceNamed(shard string) string {
	if shard == "" {
		return "source"
	}
	return "source " + shard
}

// reaching adds the server's name to an error. If the server can't be reached, reaching also adds advice.
func reaching(server string, err error) error {
	switch {
	case err == nil:
		return nil
	case unreached(err):
		return fmt.Errorf("%s: %w. Check that the server runs at this address; `replicator check` asks every server",
			server, err)
	}
	return fmt.Errorf("%s: %w", server, err)
}

// unreached reports whether an error means that a server could not be reached. The driver's errors count, because a
// proxy in front of a dead server may accept the connection and then close it.
func unreached(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)
}

// open opens the views in their sink. It also records in `o.known` the log positions that `o.view` has reached. A
// repair must not read the source at an earlier position.
func (o *inspection) open(ctx context.Context, in *inspector, shard config.Shard, sink replicator.Sink) error {
	if in.Config.Source.Kafka != nil {
		return o.openTopic(ctx, in, shard, sink, o.views)
	}
	marks, err := sink.Marks(ctx, shard.Name)
	if err != nil {
		return err
	}
	if o.view, o.target, err = openToInspect(ctx, o.source, sink, o.views, marks); err != nil {
		return err
	}
	o.know(marks, func(p replicator.Position) replicator.Position { return p })
	return nil
}

// know adds the view's positions in marks (the checkpoints that the sink keeps) to o.known. origin turns a position in
// a Kafka topic into one in the binlog that the topic's publisher reads.
func (o *inspection) know(marks []replicator.Mark, origin func(replicator.Position) replicator.Position) {
	for _, m := range marks {
		if p := origin(m.Position); m.View == o.view.Name && !p.IsZero() {
			o.known = append(o.known, p)
		}
	}
}

// openToInspect opens views in a sink, for one source, and read-only if the sink can do that. It returns a copy of the
// first view, with its fingerprint (the hash of its definition) for that source, and the opened target.
func openToInspect(ctx context.Context, source replicator.Source, sink replicator.Sink, views []*replicator.View,
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

// asMarked returns copies of the views. Each copy's Fingerprint is the hash of the view's definition and the source's
// tables. If the view's mark has an equivalent fingerprint, the copy gets that of the mark.
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

// mayLookAt returns an error if opening the view would change it. A sink empties a view whose definition has changed.
// It may also empty or create a view of which it has no mark (the checkpoint that the sink keeps).
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
