package redis

import (
	"context"
	"fmt"
	"slices"

	"replicator"
)

// Each source has records of its own, so it does not know what another one put. A key of the source is in one of them,
// but it may move, and each is read by itself: that it is gone from the one may come after that it is in the other. So
// where a source has no row of a cell, what another source's record of the same entity claims is shown, and only what
// none claims goes. That concerns what several may claim without being counted: hashes, JSON objects, and sets of keys.
//
// On one server the script finds out whether another source has a record of the entity, which costs nobody a round
// trip. If one does, the entity is decided again, with these records, and the script makes sure that they are still the
// same. In a cluster what stands beside the key says who contributes to it, under the names of the sources.
//
// Only sources that feed the sink now count: what one put that is none any more holds up nobody's deletes. A partition
// of a topic does not look for others, for its entities stay there; only what other topics put before is taken back by
// what all partitions claim.
//
// A hash or JSON object whose values the records do not hold (see keeper.merges) is left as it is: if the source that a
// key has left wrote a last change of it behind the other one's, that is what is shown.

// other is the record that another source has of an entity.
type other struct {
	key    string
	record *record
}

// kindOther is the kind of a change that is none, but what the other changes were decided on: another source's record.
const kindOther = 'o'

// isNone reports whether an op says that its source has no row of the cell.
func isNone(op *replicator.Op) bool { return op.AsOf != 0 && op.Version == replicator.NoVersion }

// readOthers reads the records that other sources have of those entities that are to be decided by them.
func (t *Target) readOthers(ctx context.Context, entities []*entity) error {
	entities = slices.DeleteFunc(slices.Clone(entities), func(e *entity) bool { return !e.shared })
	if len(entities) == 0 {
		return nil
	}
	const doing = "reading the records of other sources"
	var keys []string
	for _, e := range entities {
		for _, s := range t.others {
			keys = append(keys, recordKey(s, e.text))
		}
	}
	stored, err := t.sink.get(ctx, keys)
	if err != nil {
		return classify(err, doing)
	}
	for i, e := range entities {
		e.others = nil
		for n := i * len(t.others); n < (i+1)*len(t.others); n++ {
			r, err := parseRecord(stored[n])
			if err != nil {
				return replicator.Fatal(fmt.Errorf("%s: %w", keys[n], err))
			}
			if stored[n] != "" {
				e.others = append(e.others, other{keys[n], r})
			}
		}
	}
	return nil
}

// decidedOn are changes that name the records of other sources.
func (e *entity) decidedOn() (all []change) {
	for _, o := range e.others {
		all = append(all, change{viewKey: viewKey{kind: kindOther, key: o.key}, takes: true, args: []string{o.record.nonce}})
	}
	return all
}

// claimsOfOthers are what other sources' cells of the entity contribute to a view.
func (e *entity) claimsOfOthers(k *keeper) (all []cellClaims, err error) {
	for _, o := range e.others {
		for i := range o.record.cells {
			cell := &o.record.cells[i]
			known := cell.view(k.id)
			if known == nil || !known.contributes() {
				continue
			}
			claims, err := parseClaims(known.claims)
			if err != nil {
				return nil, replicator.Fatal(fmt.Errorf("%s: %w", o.key, err))
			}
			all = append(all, cellClaims{cell.cell, claims})
		}
	}
	if len(all) > 1 {
		sortCells(k.view, all)
	}
	return all, nil
}

// claimedBy reports whether one of the cells claims something at a key.
func (t viewKey) claimedBy(cells []cellClaims) bool {
	return slices.ContainsFunc(cells, func(one cellClaims) bool {
		return slices.ContainsFunc(one.claims, func(x claim) bool { return x.kind == t.kind && x.key == t.key })
	})
}

// vacate takes back what sources put into the views that feed the sink no more, where the view was forgotten since:
// what it held is then to be made anew by those that do. What one of these claims stays, as when an entity moves to it.
func (t *Target) vacate(ctx context.Context) error {
	if !t.sink.feeds(t.source) {
		return nil
	}
	for {
		sources, err := t.sink.Sources(ctx)
		if err != nil {
			return err
		}
		err = t.vacateOf(ctx, sources)
		if err == nil {
			return nil
		}
		if now, failed := t.sink.Sources(ctx); failed != nil || len(now) == len(sources) { // none goes
			return err
		}
	}
}

// vacateOf is vacate where these are all sources that ever fed a view.
func (t *Target) vacateOf(ctx context.Context, sources []string) error {
	sink := t.sink.among(sources)
	for _, source := range sources {
		if sink.feeds(source) {
			continue
		}
		marks, err := sink.readMarks(ctx, source)
		if err != nil {
			return err
		}
		gone := t.reclaiming(source, sink.sources)
		gone.sink, gone.views = sink, t.views
		for _, k := range t.keepers {
			if m := marks[k.view.Name]; m != nil && m.forgotten() && !m.marks[0].Vacated {
				former := *k
				former.index, former.generation = len(gone.keepers), m.generation()
				former.dead = deadKey(source, k.view.Name)
				gone.keepers = append(gone.keepers, &former)
			}
		}
		if len(gone.keepers) == 0 {
			continue
		}
		err = gone.applyEach(ctx, func(c *cellRecord, _ *record) (values []replicator.Value, _ error) {
			for _, k := range gone.keepers {
				if v := c.view(k.id); v != nil && v.claims != "" {
					values = append(values, replicator.Value{View: k.index})
				}
			}
			return values, nil
		})
		for _, k := range gone.keepers {
			if err == nil { // whoever is filled next need not look through all records again
				stub := marks[k.view.Name].marks[0]
				stub.Vacated = true
				err = sink.forget(ctx, source, k.view.Name, stub)
			}
		}
		if err != nil {
			return fmt.Errorf("taking back what source %q put there, which is none any more: %w", source, err)
		}
	}
	return nil
}

// among is the sink as one of several sources that claim the same things. The partitions of topics are not known
// beforehand: they are those of the registered sources that feed the sink, and the script sees to it that there are no
// more by then.
func (s *Sink) among(registered []string) *Sink {
	if len(s.sources) > 0 {
		return s
	}
	among := *s
	among.sources = slices.DeleteFunc(slices.Clone(registered), func(source string) bool { return !s.feeds(source) })
	guard := fmt.Sprintf("if #redis.call('SMEMBERS', '%s') ~= %d then return redis.error_reply('ERR another source has "+
		"begun to feed the views') end\n", sourcesKey, len(registered))
	among.apply = newScript(guard + library + fellows(among.sources) + applySource)
	return &among
}

// othersOf are those of the sources that a sink is fed by that an entity may move to from one of them. A partition of a
// topic is none of them: its entities stay there.
func othersOf(source string, sources []string) []string {
	if !slices.Contains(sources, source) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(sources), func(s string) bool { return s == source })
}

// fellows tells the script what the keys of the sources' records begin with.
func fellows(sources []string) string {
	b := []byte("local FELLOWS = {")
	for _, s := range sources {
		b = append(b, '"')
		for _, c := range []byte(recordKey(s, "")) {
			b = fmt.Appendf(b, "\\%03d", c)
		}
		b = append(b, `",`...)
	}
	return string(append(b, "}\n"...))
}
