package replicator

import "errors"

// ErrLost: a position can't be read any more, because the source purged its log.
var ErrLost = errors.New("the source no longer has the binlog at the checkpoint")

// ErrSinkLost: a sink holds less than was applied to it: it was emptied, restored from a backup, or failed over.
var ErrSinkLost = errors.New("the sink lost what was applied to it")

// ErrUnlogged: rows of a table changed, and the log does not say which (TRUNCATE, DROP, a table that takes another's place).
var ErrUnlogged = errors.New("the binlog does not say which rows that changed")

// tableError concerns one table of the source, and so only the views that read it.
type tableError struct {
	table string
	err   error
}

func (e tableError) Error() string { return e.err.Error() }
func (e tableError) Unwrap() error { return e.err }

// OfTable says that err concerns only the views that read a table, by its name in the configuration: the others can go on
// without it.
func OfTable(table string, err error) error {
	if err == nil {
		return nil
	}
	return tableError{table, err}
}

// tableOf is the table that err concerns; "" if it concerns all.
func tableOf(err error) string {
	var e tableError
	errors.As(err, &e)
	return e.table
}

// fatalError stops a pipeline until somebody acts: trying again at once would not help.
type fatalError struct{ err error }

func (e fatalError) Error() string { return e.err.Error() }
func (e fatalError) Unwrap() error { return e.err }

// Fatal marks err as one that a person must mend (a table is gone, access is denied, rows were lost to a TRUNCATE). The
// pipeline is then failed, and tried again every 30 s; every other error is temporary and tried again soon.
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
