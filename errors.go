package replicator

import (
	"errors"
	"fmt"
	"slices"
)

// ErrLost: a position can't be read on from, because the source purged its log, began another one, or lacks some of
// what was read.
var ErrLost = errors.New("the source no longer has its log at the checkpoint")

// ErrSinkLost: a sink holds less than was applied to it: it was emptied, restored from a backup, or failed over.
var ErrSinkLost = errors.New("the sink lost what was applied to it")

// ErrPartFellBack: a part of a sink fell back by itself, and what it shows of an entity and what the others remember of
// that are of two times. To go back and read again what followed does not mend that: the views are filled anew.
var ErrPartFellBack = errors.New("a part of the sink fell back by itself")

// ErrUnlogged: rows of a table changed, and the log does not say which: a TRUNCATE, a statement logged as text, a table
// that takes another's place, rows that can't be read.
var ErrUnlogged = errors.New("the binlog does not say which rows that changed")

// ErrEmptied is ErrUnlogged of tables that lost all of their rows and got none (TRUNCATE, DROP).
var ErrEmptied = fmt.Errorf("%w", ErrUnlogged)

// ErrOtherTables: other tables match a pattern than when reading began. The next session reads these.
var ErrOtherTables = errors.New("reading begins again with the tables that match now")

// ErrOpenAgain: what a sink has was changed on purpose since views were opened, by a swap or an ALTER TABLE. Nothing is
// wrong: the next session opens them as they are now.
var ErrOpenAgain = errors.New("the views are opened again")

// ErrClaimed: another shard of the source has a row of the cell, and the view shows that one.
var ErrClaimed = errors.New("another shard of the source has a row of this key")

// ErrNotServing: the view's pipeline has no session at the moment.
var ErrNotServing = errors.New("the pipeline is not running at the moment")

// ErrRebuilding: the view is being rebuilt already.
var ErrRebuilding = errors.New("it is being rebuilt already")

// ErrPaused: the view is paused.
var ErrPaused = errors.New("it is paused: resume it first")

// Overtaken is the error of a mark in an epoch that is not that of the view's mark: another replicator, which reads
// another server, has registered a higher one since the target was opened, or began to fill the view. Nothing was marked.
type Overtaken struct {
	View string
	By   Position // of the view's mark
}

func (e *Overtaken) Error() string {
	return fmt.Sprintf("view %s: another replicator, which reads another server, has taken it over", e.View)
}

// ErrTakenOver: another process has begun to keep the view, for a moment (a repair) or until an operator ends one of
// the two. To take the view back at once would end what the other one does.
var ErrTakenOver = errors.New("another process has taken it over")

// tableError concerns one table of the source, and so only the views that read it.
type tableError struct {
	table string
	err   error
}

func (e tableError) Error() string { return e.err.Error() }
func (e tableError) Unwrap() error { return e.err }

// OfTable says that err concerns only the views that read a table, by its name in the configuration: the others can go
// on without it.
func OfTable(table string, err error) error {
	if err == nil {
		return nil
	}
	return tableError{table, err}
}

// viewError concerns some views of a pipeline, and none of the others.
type viewError struct {
	views []string
	err   error
}

func (e viewError) Error() string { return e.err.Error() }
func (e viewError) Unwrap() error { return e.err }

// OfView says that err concerns one view, or a few together: the target is missing, can't hold it, refuses what is
// written to it. The others go on without it. What concerns the whole sink (a connection that is refused) is never of a
// view. Of several views that fail each by itself, the errors are joined.
func OfView(err error, views ...string) error {
	if err == nil {
		return nil
	}
	return viewError{views, err}
}

// sourceError is one that a source gave.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// OfSource marks err as one that a source gave, or that kept it from being asked, in what is otherwise about a sink:
// who reads it is not to look for the fault there.
func OfSource(err error) error {
	if err == nil {
		return nil
	}
	return sourceError{err}
}

// IsOfSource reports whether err was marked by OfSource.
func IsOfSource(err error) bool { return errors.As(err, new(sourceError)) }

// Troubled parts views by an error: into groups that it concerns, each by itself or with those that it shares the
// trouble with, and the others. There are no groups where it concerns all of the views alike.
func Troubled(views []*View, err error) (groups [][]*View, others []*View) {
	others = views
	leave := func(concerned func(*View) bool) {
		var group, rest []*View
		for _, v := range others {
			if concerned(v) {
				group = append(group, v)
			} else {
				rest = append(rest, v)
			}
		}
		if others = rest; len(group) > 0 {
			groups = append(groups, group)
		}
	}
	if !visit(err, leave) || len(groups) == 1 && len(others) == 0 {
		return nil, views
	}
	return groups, others
}

// IsOfViews reports whether err concerns views or tables by themselves, and not a whole sink or source.
func IsOfViews(err error) bool { return visit(err, func(func(*View) bool) {}) }

// visit calls leave for each part of err that concerns only some views. It reports whether there is no other part.
func visit(err error, leave func(concerned func(*View) bool)) bool {
	switch e := err.(type) {
	case viewError:
		leave(func(v *View) bool { return slices.Contains(e.views, v.Name) })
		return true
	case tableError:
		leave(func(v *View) bool { return slices.Contains(TablesOf([]*View{v}), e.table) })
		return true
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			if !visit(part, leave) {
				return false
			}
		}
		return true
	case interface{ Unwrap() error }:
		return visit(e.Unwrap(), leave)
	}
	return false
}

// fatalError stops a pipeline until somebody acts: trying again at once would not help.
type fatalError struct{ err error }

func (e fatalError) Error() string { return e.err.Error() }
func (e fatalError) Unwrap() error { return e.err }

// Fatal marks err as one that a person must mend (a table is gone, access is denied, rows were lost to a TRUNCATE). The
// pipeline is then failed, and tried again after 1 s and ever longer pauses of up to 30 s. Every other error is temporary
// and tried again soon.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return fatalError{err}
}

// IsFatal reports whether err was marked by Fatal.
func IsFatal(err error) bool {
	var f fatalError
	return errors.As(err, &f)
}
