package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"replicator"
)

// Shard is one database of a sharded sink.
type Shard struct {
	Name string // the shard's name in the configuration, for messages
	DSN  string // the database's DSN, in go-sql-driver's form
}

// Sharded keeps views in several databases, each of which is an ordinary Sink with its own states. A view with a
// ShardOn lives in all of them: the entry's value of that column decides the entry's shard. Other views live in the
// first database. Sharded is safe for concurrent use.
type Sharded struct {
	name   string
	shards []*Sink
	names  []string
	spread map[string]bool // names of the views that live in every shard

	definitions map[string]string // by view name: the view's fingerprint, a hash of its definition
}

var (
	_ replicator.Sink    = (*Sharded)(nil)
	_ replicator.Sourced = (*Sharded)(nil)
)

// NewSharded makes a sink of at least two shards, whose order decides which shard an entry belongs to. It does not
// connect yet. views are all views of the sink. c's DSN is not used.
func NewSharded(c Config, shards []Shard, views []*replicator.View) (*Sharded, error) {
	s := &Sharded{name: c.Name, spread: map[string]bool{}, definitions: map[string]string{}}
	for _, shard := range shards {
		one := c
		one.Name, one.DSN = c.Name+", shard "+shard.Name, shard.DSN
		sink, err := New(one)
		if err != nil {
			_ = s.Close() // no connection is open yet
			return nil, err
		}
		sink.shard = shard.Name
		s.shards, s.names = append(s.shards, sink), append(s.names, shard.Name)
	}
	for _, v := range views {
		s.definitions[v.Name] = v.Fingerprint
		if settingsOf(v).ShardOn != "" {
			s.spread[v.Name] = true
		}
	}
	return s, nil
}

// each calls do for all shards at once and waits. If one shard fails, the others still complete. The error is that of
// the first failing shard.
func (s *Sharded) each(do func(shard int) error) error {
	errs := make([]error, len(s.shards))
	var wg sync.WaitGroup
	for i := range s.shards {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return s.in(i, err)
		}
	}
	return nil
}

func (s *Sharded) in(shard int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("shard %s: %w", s.names[shard], err)
}

// viewsIn returns the views that a shard holds. Views without shard_on are only in the first shard.
func viewsIn(shard int, views []*replicator.View) []*replicator.View {
	if shard == 0 {
		return views
	}
	return slices.DeleteFunc(slices.Clone(views), func(v *replicator.View) bool { return settingsOf(v).ShardOn == "" })
}

// Open implements replicator.Sink. It opens in each shard the views that live there.
func (s *Sharded) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t := &shardedTarget{sink: s, views: slices.Clone(views), shards: make([]*Target, len(s.shards))}
	err := s.each(func(shard int) error {
		here := viewsIn(shard, views)
		if len(here) == 0 {
			return nil
		}
		target, err := s.shards[shard].Open(ctx, source, here)
		if err == nil {
			t.shards[shard] = target.(*Target)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	t.place()
	var refused []error
	for _, v := range views {
		if settingsOf(v).ShardOn == "" {
			continue
		}
		if err := s.alike(v, t.keepers(v)); err != nil {
			refused = append(refused, replicator.OfView(replicator.Fatal(err), v.Name))
		}
	}
	if len(refused) > 0 {
		return nil, errors.Join(refused...)
	}
	return t, nil
}

// alike refuses a view whose tables accept different values: a value must fit all shards or none.
func (s *Sharded) alike(v *replicator.View, kept []*keeper) error {
	first := kept[0].managed()
	for shard, k := range kept {
		for i, c := range k.managed() {
			if a, b := first[i].takes(), c.takes(); a != b {
				return fmt.Errorf("view %s: its column %s is %s in table %s of shard %s, but %s in table %s of shard %s: "+
					"the shards' tables must be alike",
					v.Name, c.name, a, kept[0].table, s.names[0], b, k.table, s.names[shard])
			}
		}
		if k.single != kept[0].single {
			return fmt.Errorf("view %s: table %s of shard %s and table %s of shard %s differ in their unique keys: "+
				"the shards' tables must be alike",
				v.Name, kept[0].table, s.names[0], k.table, s.names[shard])
		}
	}
	return nil
}

// takes describes the values that a column accepts. Servers declare integers differently ("int" and "int(11)").
func (c *column) takes() string {
	parts := []string{c.declared}
	if integerBits[c.typ] != 0 {
		parts[0] = c.typ
		if c.unsigned {
			parts = append(parts, "unsigned")
		}
	}
	if c.typ == "json" {
		parts[0] = "json"
	}
	if c.charset != "" && c.typ != "json" {
		parts = append(parts, "in "+strings.Replace(c.charset, "utf8mb3", "utf8", 1))
	}
	if !c.nullable {
		parts = append(parts, "NOT NULL")
	}
	return strings.Join(parts, " ")
}

// Marks implements replicator.Sink. A view that lives in every shard has the lowest of its shards' marks. It has no
// mark if one shard doesn't know the view, or knows it with another definition.
func (s *Sharded) Marks(ctx context.Context, source string) ([]replicator.Mark, error) {
	by, err := s.marksOf(ctx, source)
	if err != nil {
		return nil, err
	}
	var found []replicator.Mark
	for _, m := range by[0] {
		if !s.spread[m.View] || lowest(&m, by[1:]) {
			found = append(found, m)
		}
	}
	return found, nil
}

func (s *Sharded) marksOf(ctx context.Context, source string) ([][]replicator.Mark, error) {
	by := make([][]replicator.Mark, len(s.shards))
	err := s.each(func(shard int) (err error) {
		by[shard], err = s.shards[shard].Marks(ctx, source)
		return err
	})
	return by, err
}

// Sources implements replicator.Sourced. It asks the first shard, which has at least a part of every view.
func (s *Sharded) Sources(ctx context.Context) ([]string, error) { return s.shards[0].Sources(ctx) }

// lowest lowers a view's mark (its progress) to the lowest of all shards. It returns false if a shard doesn't know the
// view, or knows it with another definition.
func lowest(m *replicator.Mark, others [][]replicator.Mark) bool {
	for _, marks := range others {
		i := slices.IndexFunc(marks, func(o replicator.Mark) bool {
			return o.View == m.View && o.Fingerprint == m.Fingerprint
		})
		if i < 0 {
			return false
		}
		if m.Err == nil {
			m.Standing, m.Err = m.Least(marks[i].Standing), marks[i].Err
		}
	}
	return true
}

// Forget implements replicator.Sink. Every shard forgets the view.
func (s *Sharded) Forget(ctx context.Context, view string) error {
	return s.each(func(shard int) error { return s.shards[shard].Forget(ctx, view) })
}

// Close implements replicator.Sink. The caller has closed all targets.
func (s *Sharded) Close() error {
	return s.each(func(shard int) error { return s.shards[shard].Close() })
}
