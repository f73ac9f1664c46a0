package canal

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"replicator"
	"replicator/canal/binlog"
)

// maxPlans limits the plans that are kept. A table's id changes with every ALTER and whenever the server reopens the
// table, so outdated plans accumulate.
const maxPlans = 1024

func (s *stream) tableMap(ctx context.Context, body []byte) error {
	m, _, err := binlog.SplitTableMap(body)
	if err != nil {
		return err
	}
	t := s.tables.find(m.Database, m.Table)
	if t == nil || s.silent() || s.tables.pending(t) {
		s.maps[m.ID] = nil
		return nil
	}
	p := s.plans[m.ID]
	if p == nil || p.t != t || !bytes.Equal(p.raw, body) {
		if p, err = s.newPlan(ctx, t, body); err != nil {
			return err
		}
		if len(s.plans) > maxPlans {
			clear(s.plans)
		}
		s.plans[m.ID] = p
	}
	s.maps[m.ID] = p
	return nil
}

// newPlan makes the plan for a table map. If the columns known at this log position can't decode the rows, the plan
// skips them.
func (s *stream) newPlan(ctx context.Context, t *watched, body []byte) (*plan, error) {
	fatal := func(err error) error {
		return t.fatal(fmt.Errorf("table %s (%s.%s): %w", t.Name, t.Database, t.Table.Table, err))
	}
	m, err := binlog.ParseTableMap(body, s.flavor)
	if err != nil {
		return nil, fatal(err)
	}
	l := s.layoutOf(t, &m)
	if err = s.readable(&m, l); err == nil {
		return s.planBy(ctx, t, body, &m, l)
	}
	certain, cerr := s.unfit(ctx, t)
	var why unreadable
	switch {
	case cerr != nil:
		return nil, cerr
	case !certain:
		return &plan{t: t, raw: bytes.Clone(body), passed: err}, nil
	case errors.As(err, &why) && why.mild:
		return s.planBy(ctx, t, body, &m, l)
	}
	return nil, fatal(fmt.Errorf("%w, and nothing in the binlog says why. Set binlog_row_metadata=FULL on the source, "+
		"so that the binlog names its columns. Then %s", err, wayOut))
}

// planBy makes the plan for a table map from a layout. If the rows lack a needed column that the table has by now, the
// plan skips the rows.
func (s *stream) planBy(ctx context.Context, t *watched, body []byte, m *binlog.TableMap, l *layout) (*plan, error) {
	p, err := newPlan(t, body, m, l, s.charsets)
	if errors.As(err, &unreadable{}) && s.layouts != nil {
		certain, cerr := s.lacks(ctx, t)
		if cerr != nil {
			return nil, cerr
		}
		if !certain {
			return &plan{t: t, raw: bytes.Clone(body), passed: err}, nil
		}
	}
	if t.Pattern && errors.Is(err, replicator.ErrRedefined) { // the rows are of an earlier table with this name
		return &plan{t: t, raw: bytes.Clone(body), passed: err}, nil
	}
	if err != nil {
		return nil, t.fatal(fmt.Errorf("table %s (%s.%s): %w", t.Name, t.Database, t.Table.Table, err))
	}
	if s.layouts != nil && m.Names == nil {
		s.layouts.readBy(t.id)
	}
	if err := p.learn(ctx, s.charsets); err != nil {
		return nil, fmt.Errorf("table %s: %w", t.Name, err)
	}
	return p, nil
}

// layoutOf returns the layout of the rows that follow a table map in the log. The result is nil if the layout is
// unknown, or if the log names the columns.
func (s *stream) layoutOf(t *watched, m *binlog.TableMap) *layout {
	switch {
	case m.Names != nil:
		return nil
	case s.layouts == nil:
		return t.schema.Load().layout()
	}
	return s.layouts.current(t.id)
}

func (s *stream) readable(m *binlog.TableMap, l *layout) error {
	switch {
	case m.Names != nil:
		return nil
	case l == nil:
		return unreadable{why: "the columns of its rows are unknown, because the binlog doesn't name them"}
	}
	return l.fits(m, s.charsets)
}

// unfit handles rows that don't fit their table's layout. It reads the table's columns again, unless that was already
// done. If the server confirmed the known columns, `certain` is true, and the rows can't be decoded.
func (s *stream) unfit(ctx context.Context, t *watched) (certain bool, err error) {
	if s.layouts == nil {
		return true, nil
	}
	reread, certain := s.layouts.unfit(t.id, s.here(gtidRun{}).order)
	if reread {
		err = s.reread(ctx, t.id)
	}
	return certain, err
}

// lacks handles rows that lack a needed column. If the table has that column at a later log position, its rows are
// skipped up to there. Otherwise `certain` is true, and reading must fail.
func (s *stream) lacks(ctx context.Context, t *watched) (certain bool, err error) {
	if s.layouts.hasAhead(t.id) {
		return false, nil
	}
	if err := s.reread(ctx, t.id); err != nil {
		return false, err
	}
	_, err = newSelection(t)
	return err != nil, nil
}

// passOverFrom skips a table's rows, because one could not be decoded, up to the position from which the table's
// current columns are certain.
func (s *stream) passOverFrom(ctx context.Context, p *plan, why error) error {
	certain := true
	if s.layouts != nil {
		var err error
		if certain, err = s.lacks(ctx, p.t); err != nil {
			return err
		}
	}
	if certain {
		return p.t.fatal(fmt.Errorf("table %s: %w. %s", p.t.Name, why, wayOut))
	}
	p.passed = why
	return s.passOver(p)
}

// passOver skips rows that their plan can't decode. It reports ErrUnlogged once for all skipped rows of a table, and in
// each XA transaction.
func (s *stream) passOver(p *plan) error {
	if s.layouts == nil || !s.tx.xa && !s.layouts.tellOnce(p.t.id) {
		return nil
	}
	return s.unlogged(p.t.Name, fmt.Errorf("table %s: changed rows can't be read: %w: %w", p.t.Name, p.passed,
		replicator.ErrUnlogged))
}

// settled switches to the layouts in track.ahead that apply from the given log position on. It must be called before
// the position advances there, so that a problem is reported before a later position is saved.
func (s *stream) settled(order int64) error {
	if s.layouts == nil || !s.layouts.due(order) {
		return nil
	}
	wrong := s.layouts.settle(order)
	clear(s.plans)
	var errs []error
	for _, name := range wrong {
		errs = append(errs, s.unlogged(name, fmt.Errorf("table %s: rows were decoded by the wrong columns. These were "+
			"derived from ALTER statements, and the server has others: %w", name, replicator.ErrUnlogged)))
	}
	return errors.Join(errs...)
}
