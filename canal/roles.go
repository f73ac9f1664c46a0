package canal

import (
	"fmt"
	"slices"
	"strings"

	"replicator/canal/binlog"
)

// roles has the indexes of the columns with a role (key, column, version, body) in a row image or in a query's result.
type roles struct {
	key     []int
	column  int   // -1: no column has the role `column`
	version int   // -1: the row's log position is the version
	body    int   // -1: no column has the role `body`
	extras  []int // the columns whose values go into Row.Columns
	names   []string
}

func noRoles() roles { return roles{column: -1, version: -1, body: -1} }

// findRoles returns the indexes of the configured columns. all are the names of the table's columns. find returns the
// index of a column, and kind returns its kind. find receives the role "" for columns that are read only because a view
// wants all columns ("*").
func (t *watched) findRoles(all []string, find func(role, name string) (int, error), kind func(int) binlog.Kind) (
	r roles, err error,
) {
	r = noRoles()
	for _, name := range t.Key {
		i, err := find("key", name)
		if err != nil {
			return r, err
		}
		r.key = append(r.key, i)
	}
	for _, one := range []struct {
		role, name string
		into       *int
	}{{"column", t.Column, &r.column}, {"version", t.Version, &r.version}, {"body", t.Body, &r.body}} {
		if one.name == "" {
			continue
		}
		if *one.into, err = find(one.role, one.name); err != nil {
			return r, err
		}
	}
	if r.version >= 0 && !isVersion(kind(r.version)) {
		return r, fmt.Errorf("column %s (version) is neither an integer nor a DATETIME or TIMESTAMP", t.Version)
	}
	if r.body >= 0 && !isBody(kind(r.body)) {
		return r, fmt.Errorf("column %s (body) is neither text, binary nor JSON", t.Body)
	}
	return r, t.findExtras(&r, all, find, kind)
}

func (t *watched) findExtras(r *roles, all []string, find func(role, name string) (int, error),
	kind func(int) binlog.Kind,
) error {
	names, everything := slices.Clone(t.Columns), slices.Contains(t.Columns, "*")
	if everything { // Row.Body has the body column, so Row.Columns omits it
		names = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return strings.EqualFold(name, t.Body) })
	}
	for _, name := range t.Optional {
		if containsFold(all, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		role := ""
		if !everything {
			role = t.neededBy(name)
		}
		i, err := find(role, name)
		if err != nil {
			return t.limitToViews(name, err)
		}
		r.extras = append(r.extras, i)
	}
	for n, i := range r.key { // a key has a DECIMAL only as text, so rows also carry the value
		if kind(i) == binlog.KindDecimal && !slices.Contains(r.extras, i) {
			r.extras, names = append(r.extras, i), append(names, t.Key[n])
		}
	}
	r.names = names
	return nil
}

func isVersion(k binlog.Kind) bool {
	switch k {
	case binlog.KindInt, binlog.KindBit, binlog.KindYear, binlog.KindDatetime, binlog.KindDatetimeOld,
		binlog.KindTimestamp, binlog.KindTimestampOld:
		return true
	}
	return false
}

func isBody(k binlog.Kind) bool {
	return k == binlog.KindText || k == binlog.KindBytes || k == binlog.KindJSON
}
