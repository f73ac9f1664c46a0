package replicator

import (
	"errors"
	"fmt"
	"slices"
)

// ErrLost: reading can't continue from a position. The source purged its log, began a new log, or lacks transactions
// that were already read.
var ErrLost = errors.New("the source no longer has its log after the checkpoint")

// ErrSinkLost: a sink holds less than was applied to it, because it was emptied, restored from a backup, or failed
// over.
var ErrSinkLost = errors.New("the sink lost what was applied to it")

// ErrPartFellBack: one part of a sink, such as a shard, returned to an older state. Its entries no longer match what
// the other parts remember. Replaying the log does not repair that, so the views are filled again.
var ErrPartFellBack = errors.New("a part of the sink (a shard or a server) lost its latest data")

// ErrUnlogged: rows of a table changed, and the log does not say which. Examples are a TRUNCATE, a statement logged as
// text, a different table renamed to the table's name, and rows that can't be read.
var ErrUnlogged = errors.New("the binlog does not say which rows changed")

// ErrEmptied: a table lost all of its rows (TRUNCATE, DROP). It wraps ErrUnlogged, because the log does not list them.
var ErrEmptied = fmt.Errorf("%w", ErrUnlogged)

// ErrOtherTables: a pattern now matches other tables than when reading began. Reading starts again with these tables.
var ErrOtherTables = errors.New("reading begins again with the tables that match now")

// ErrOpenAgain: a swap of a rebuilt view or an ALTER TABLE changed the targets since the views were opened. Nothing is
// wrong: the next session opens the views again.
var ErrOpenAgain = errors.New("replicator opens the views again")

// ErrClaimed: another shard of the source has a row of the same cell, and the view shows that row.
var ErrClaimed = errors.New("another shard of the source has a row of this key")

// ErrNotServing: the view's pipeline is between two attempts and can't answer.
var ErrNotServing = errors.New("the pipeline is starting, or waits to start again after an error (`replicator " +
	"status` shows it)")

var ErrRebuilding = errors.New("it is being rebuilt already")

var ErrPaused = errors.New("it is paused: resume it first")

// Overtaken is the error of a Target.Mark that saved nothing, because the sink's position of the view is in another
// epoch of the log (EpochOf) than the caller's. Another replicator, which reads another server, has marked a higher
// epoch. Or it has begun a later fill of the view, whose position counts in any epoch.
type Overtaken struct {
	View string
	By   Position // the view's position in the sink
}

func (e *Overtaken) Error() string {
	return fmt.Sprintf("view %s: another replicator, which reads another server, has taken the view over", e.View)
}

// ErrTakenOver is a Kafka sink's error: another process now publishes the view. That process may be a short repair, or
// may run until the operator stops one of the two. Taking the view back at once would interrupt it.
var ErrTakenOver = errors.New("another process now publishes the view")

type tableError struct {
	table string
	err   error
}

func (e tableError) Error() string { return e.err.Error() }
func (e tableError) Unwrap() error { return e.err }

// OfTable marks err as an error that concerns only the views that read one table. table is the table's name in the
// configuration. The other views can go on.
func OfTable(table string, err error) error {
	if err == nil {
		return nil
	}
	return tableError{table, err}
}

type viewError struct {
	views []string
	err   error
}

func (e viewError) Error() string { return e.err.Error() }
func (e viewError) Unwrap() error { return e.err }

// OfView marks err as an error that concerns only the named views: their target is missing, can't hold the view, or
// refuses a write. The other views go on. An error of the whole sink, such as a refused connection, never becomes an
// OfView error. If several views fail independently, their errors are joined.
func OfView(err error, views ...string) error {
	if err == nil {
		return nil
	}
	return viewError{views, err}
}

type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// OfSource marks err as an error of the source that occurred in an operation on a sink. It tells the operator that the
// fault is not in the sink.
func OfSource(err error) error {
	if err == nil {
		return nil
	}
	return sourceError{err}
}

func IsOfSource(err error) bool { return errors.As(err, new(sourceError)) }

// Troubled divides views by the cause of err. Each group holds the views that share one cause, and others holds the
// views without an error. If all views share one cause, nothing is divided: groups is empty, and others holds all
// views.
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

// IsOfViews reports whether err concerns single views or tables, and not a whole sink or source.
func IsOfViews(err error) bool { return visit(err, func(func(*View) bool) {}) }

// visit calls onPart for each part of err that concerns only some views. `concerned` reports whether the part concerns
// a view. At a part that concerns all views, visit stops and returns false.
func visit(err error, onPart func(concerned func(*View) bool)) bool {
	switch e := err.(type) {
	case viewError:
		onPart(func(v *View) bool { return slices.Contains(e.views, v.Name) })
		return true
	case tableError:
		onPart(func(v *View) bool { return slices.Contains(TablesOf([]*View{v}), e.table) })
		return true
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			if !visit(part, onPart) {
				return false
			}
		}
		return true
	case interface{ Unwrap() error }:
		return visit(e.Unwrap(), onPart)
	}
	return false
}

type fatalError struct{ err error }

func (e fatalError) Error() string { return e.err.Error() }
func (e fatalError) Unwrap() error { return e.err }

// Fatal marks err as an error that an operator must fix, such as a missing table or a denied login. The views are then
// failed. Views that were running are tried again, after pauses that grow from 1 s to 30 s. Views that were refused at
// the start wait for a reload, a rebuild or a restart. Every other error is temporary and soon tried again.
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
