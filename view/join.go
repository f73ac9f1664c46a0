package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator"
)

// joinPlan says how the rows of one join are evaluated. Views that define the same join under the same name share it.
type joinPlan struct {
	identity string
	name     string
	lookup   string // the ID of the Lookup that finds the joined rows; Row.Joined has the rows by this ID
	many     bool
	where    *expression // selects joined rows; nil: every row
	fields   []leaf      // fields of a joined row's object; empty: the whole row
	names    []string    // names[i] is the name of fields[i]
	limit    int         // maximum number of rows that are used; 0: all
	whole    bool        // a path needs the whole joined row

	binder *binder // resolves paths for the joined table
	plan   *plan   // decodes the joined rows; has no feeds, because joined rows make no entries of their own
}

// bindJoins lets paths lead into a view's joins, and records the columns by which joined rows are found.
func (b *binder) bindJoins(f *feed, v *replicator.View) error {
	b.joinAt = map[string]int{}
	if len(v.Joins) == 0 {
		return nil
	}
	if b.merged {
		return f.at("from", errors.New("names several tables. A view with joins can name only one"))
	}
	lookups, names := v.Lookups()
	if len(names) < len(v.Joins) {
		return f.at("join", errors.New("the joins refer to each other in a circle, or to a join that does not exist"))
	}
	for i, name := range names {
		j := &v.Joins[slices.IndexFunc(v.Joins, func(j replicator.Join) bool { return j.Name == name })]
		at, err := b.joinPlan(f, j, lookups[i])
		if err != nil {
			return err
		}
		b.joinAt[name] = at
		joined := b.joins[at].binder
		for _, on := range j.On {
			side := b
			if on.From != "" {
				side = b.joins[b.joinAt[on.From]].binder
			}
			if _, err := side.column(on.Path); err != nil {
				return f.at("join."+name+".on", err)
			}
			if _, err := joined.column(on.Column); err != nil {
				return f.at("join."+name+".on", err)
			}
		}
		for _, by := range j.Order {
			if _, err := joined.column(strings.TrimPrefix(by, "-")); err != nil {
				return f.at("join."+name+".order", err)
			}
		}
	}
	return nil
}

// joinPlan returns the index of a join's plan. It creates the plan if no view has created it yet.
func (b *binder) joinPlan(f *feed, j *replicator.Join, l replicator.Lookup) (int, error) {
	text, _ := json.Marshal([]any{j.Name, l.ID, j.Where, j.Fields, j.Limit}) // strings and numbers always marshal
	identity := string(text)
	at := slices.IndexFunc(b.joins, func(p *joinPlan) bool { return p.identity == identity })
	if at >= 0 {
		return at, nil
	}
	i := slices.IndexFunc(b.tables, func(t replicator.Table) bool { return t.Name == j.Table })
	if i < 0 {
		return 0, f.at("join."+j.Name+".table", fmt.Errorf("there is no table %s", j.Table))
	}
	p := &joinPlan{identity: identity, name: j.Name, lookup: l.ID, many: j.Many, limit: j.Limit,
		binder: &binder{table: &b.tables[i]}}
	if j.Where != "" {
		var err error
		if p.where, err = compileBool(j.Where, p.binder); err != nil {
			return 0, f.at("join."+j.Name+".where", err)
		}
	}
	for _, field := range j.Fields {
		l, err := (&leafCompiler{binder: p.binder}).compile(field.Path)
		if err != nil {
			return 0, f.at("join."+j.Name+".fields", fmt.Errorf("%s: %w", field.Name, err))
		}
		p.fields, p.names = append(p.fields, l), append(p.names, field.Name)
	}
	b.joins = append(b.joins, p)
	return len(b.joins) - 1, nil
}

// joinedPath resolves a path that leads into a join's row or list of rows.
func (b *binder) joinedPath(at int, p path) (ref, error) {
	j := b.joins[at]
	r := ref{text: p.text, join: at + 1, step: p.step}
	if j.many {
		r.root = root{kind: rootList, name: j.name}
		j.wantWhole()
		return r, j.checkSteps(p.step)
	}
	if len(p.step) == 0 {
		r.root = root{kind: rootObject, name: j.name}
		j.wantWhole()
		return r, nil
	}
	first := p.step[0]
	if first.kind != stepName {
		return r, fmt.Errorf("%s is one row, not a list. Name a field, as in %s.name, or set many = true",
			j.name, j.name)
	}
	inner := path{text: p.text, root: strings.TrimPrefix(first.name, "$"), step: p.step[1:]}
	inner.own = inner.root != first.name
	r, err := j.binder.resolve(inner)
	r.join = at + 1
	return r, err
}

// checkSteps refuses a path that can't lead into the join's list of rows. steps are the steps after the join's name.
func (j *joinPlan) checkSteps(steps []step) error {
	if len(steps) == 0 {
		return nil
	}
	if first := steps[0]; first.kind == stepName {
		return fmt.Errorf("%s is a list. Write %s[].%s for every row, or %s[0].%s for the "+
			"first", j.name, j.name, first.name,
			j.name, first.name)
	}
	if len(steps) > 1 && steps[1].kind == stepName && len(j.names) > 0 && !slices.Contains(j.names, steps[1].name) {
		return fmt.Errorf("the join %s has no field %s%s. Add it to the join's fields", j.name, steps[1].name,
			didYouMean(steps[1].name, j.names))
	}
	return nil
}

// wantWhole records that a view uses the joined row as a whole. If the join names its fields, only these are needed.
func (j *joinPlan) wantWhole() {
	if len(j.fields) > 0 || j.whole {
		return
	}
	j.whole = true
	if j.binder.table.Body == "" {
		j.binder.everyColumn()
	}
}

// finish creates the plan for the join's rows. All paths into the join must have been resolved before.
func (j *joinPlan) finish(codecs Codecs) (err error) {
	j.plan = &plan{json: codecs.JSON}
	return j.plan.finish(j.binder, j.whole, codecs)
}

// joined has the rows that a join found for the current row of the view.
type joined struct {
	isRead bool
	scope  *scope // evaluates the joined rows; reused for each row
	row    *replicator.Row
	list   []any
	err    error
}

// joinError is an error in a joined row. It concerns every entry that uses the row.
type joinError struct {
	join string
	cell replicator.Cell
	err  error
}

func (e *joinError) Error() string { return fmt.Sprintf("join %s: row %s: %v", e.join, e.cell, e.err) }
func (e *joinError) Unwrap() error { return e.err }

// ofJoinedRow returns the joinError inside err, without the name of the field that happened to use the joined row
// first. It returns other errors unchanged.
func ofJoinedRow(err error) error {
	var joined *joinError
	if errors.As(err, &joined) {
		return joined
	}
	return err
}

var errNotJoined = errors.New("the joined rows were not read")

// join returns the evaluated rows of a join. It evaluates them only once for each row of the view.
func (s *scope) join(at int) *joined {
	j := &s.joined[at]
	if j.isRead {
		return j
	}
	j.isRead = true
	if j.scope == nil {
		j.scope = &scope{}
	}
	p := s.plan.joins[at]
	if p.many {
		j.list = []any{}
	}
	rows := s.row.Joined[p.lookup]
	if len(rows) > replicator.MaxJoined {
		j.err = fmt.Errorf("join %s: more than %d rows are joined with the view's row. Give the join a limit, and no "+
			"where", p.name, replicator.MaxJoined)
		return j
	}
	for _, row := range rows {
		counts, err := j.scope.joinedRow(p, row)
		var object replicator.Object
		if err == nil && counts && p.many {
			object, err = j.scope.object(p)
		}
		if err != nil {
			j.err = &joinError{p.name, row.Cell, err}
			return j
		}
		if !counts {
			continue
		}
		if !p.many {
			j.row = row
			return j
		}
		if j.list = append(j.list, object); len(j.list) == p.limit {
			break
		}
	}
	return j
}

// joinedRow prepares the evaluation of a joined row, and reports whether the join's where holds for it.
func (s *scope) joinedRow(p *joinPlan, row *replicator.Row) (bool, error) {
	if row.Err != nil {
		return false, row.Err
	}
	s.reset(p.plan, row.Cell, row)
	if p.where == nil {
		return true, nil
	}
	ok, err := s.test(p.where)
	if err != nil {
		err = fmt.Errorf("where: %w", err)
	}
	return ok, err
}

// startJoined returns the value that a compiled path into a join starts with: the list of rows, a joined row, or a
// value of a joined row.
func (s *scope) startJoined(r *ref) (any, error) {
	j, p := s.join(r.join-1), s.plan.joins[r.join-1]
	switch {
	case j.err != nil:
		return nil, j.err
	case p.many:
		return j.list, nil
	case j.row == nil:
		return nil, nil
	}
	var v any
	var err error
	if r.root.kind == rootObject {
		v, err = j.scope.object(p)
	} else {
		v, err = j.scope.startOwn(r)
	}
	if err != nil {
		return nil, &joinError{p.name, j.row.Cell, err}
	}
	return v, nil
}

// object returns a joined row as an object. It has the join's fields, or the whole row if the join names no fields.
func (s *scope) object(p *joinPlan) (replicator.Object, error) {
	members := make([]replicator.Member, 0, max(len(p.fields), len(s.row.Columns)))
	if len(p.fields) > 0 {
		for i := range p.fields {
			v, err := s.value(&p.fields[i])
			if err != nil {
				return nil, err
			}
			if v != nil {
				members = append(members, replicator.Member{Name: p.names[i], Value: v})
			}
		}
		return replicator.MakeObject(members), nil
	}
	if p.binder.table.Body != "" {
		return s.document()
	}
	for i, name := range s.row.Names {
		if i >= len(s.row.Columns) || s.row.Columns[i] == nil {
			continue
		}
		v := s.row.Columns[i]
		if text, ok := v.(replicator.RawJSON); ok {
			var err error
			if v, err = s.plan.json(text); err != nil {
				return nil, fmt.Errorf("column %s: %w", name, err)
			}
		}
		members = append(members, replicator.Member{Name: name, Value: v})
	}
	return replicator.MakeObject(members), nil
}

func (s *scope) document() (replicator.Object, error) {
	body, err := s.body()
	if err != nil {
		return nil, err
	}
	if body == nil {
		return replicator.Object{}, nil
	}
	if s.plan.whole != nil {
		document, err := s.plan.whole(body)
		if err != nil {
			err = fmt.Errorf("the body can't be decoded: %w", err)
		}
		return document, err
	}
	v, err := s.plan.json(body)
	if err != nil {
		return nil, fmt.Errorf("the body can't be decoded: %w", err)
	}
	document, ok := v.(replicator.Object)
	if !ok {
		return nil, fmt.Errorf("the body can't be decoded: it is %s, not an object", sortOf(v))
	}
	return document, nil
}
