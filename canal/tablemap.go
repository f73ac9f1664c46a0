package canal

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"replicator"
	"replicator/canal/binlog"
)

// maxPlans bounds the plans kept: a table's id changes with every ALTER, and every time that the server opens it again.
const maxPlans = 1024

// tableMap notes which table the rows that follow belong to.
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

// newPlan makes the plan for a table map. Rows that can't be read by what is known at this place of their table's
// columns have one that passes them over.
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
	return nil, fatal(fmt.Errorf("%w, and nothing in the binlog says why. Set binlog_row_metadata=FULL on the source, so "+
		"that the binlog names its columns, and then: %s", err, wayOut))
}

// planBy makes the plan for a table map whose columns are known. Where a needed one is missing, and the table has it
// now, the rows are passed over.
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
	if t.Pattern && errors.Is(err, replicator.ErrRedefined) { // a table of that name, from before: it is no member
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

// layoutOf is the layout of a table's rows at this place; nil where that is unknown, or where the log names their
// columns.
func (s *stream) layoutOf(t *watched, m *binlog.TableMap) *layout {
	switch {
	case m.Names != nil:
		return nil
	case s.layouts == nil:
		return t.schema.Load().layout()
	}
	return s.layouts.current(t.id)
}

// readable is an unreadable error where rows can't be read by a layout.
func (s *stream) readable(m *binlog.TableMap, l *layout) error {
	switch {
	case m.Names != nil:
		return nil
	case l == nil:
		return unreadable{why: "the binlog doesn't name the columns of its rows, and they are not known otherwise"}
	}
	return l.fits(m, s.charsets)
}

// unfit: rows of a table can't have its layout. What the table is now is read again, unless it was, and is awaited. It
// reports whether the layout is certain all the same.
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

// lacks: rows lack a column that is needed. Where the table has all that are needed at a later place, they are passed
// over until then. It reports whether it has not.
func (s *stream) lacks(ctx context.Context, t *watched) (certain bool, err error) {
	if s.layouts.awaited(t.id) {
		return false, nil
	}
	if err := s.reread(ctx, t.id); err != nil {
		return false, err
	}
	_, err = newSelection(t)
	return err != nil, nil
}

// passOverFrom passes over the rows of a plan that turned out not to be able to read them, up to the place from which
// on the table is known to be what it is now.
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

// passOver passes over the rows of a plan that can't read them: they count as changed without a list.
func (s *stream) passOver(p *plan) error {
	if s.layouts == nil || !s.tx.xa && !s.layouts.passOver(p.t.id) {
		return nil
	}
	return s.unlogged(p.t.Name, fmt.Errorf("table %s: rows were changed that can't be read: %w: %w", p.t.Name, p.passed,
		replicator.ErrUnlogged))
}

// settled makes layouts certain that have become so at an order. It comes before that order is promoted, so that what
// is wrong is noted before anything behind it is saved.
func (s *stream) settled(order int64) error {
	if s.layouts == nil || !s.layouts.due(order) {
		return nil
	}
	wrong := s.layouts.settle(order)
	clear(s.plans)
	var errs []error
	for _, name := range wrong {
		errs = append(errs, s.unlogged(name, fmt.Errorf("table %s: rows were read by columns that the table turned out not "+
			"to have had: %w", name, replicator.ErrUnlogged)))
	}
	return errors.Join(errs...)
}
