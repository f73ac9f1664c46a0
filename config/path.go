package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/internal/keytemplate"
	"replicator/internal/nearest"
)

// PathName returns the default name of a value with the given path: the path's last name, without quotes. It returns ""
// for a malformed path.
func PathName(path string) string {
	name := ""
	for rest := strings.TrimPrefix(path, "$"); ; {
		name, rest = cutName(rest)
		for strings.HasPrefix(rest, "[") {
			end := strings.Index(rest, "]")
			if end < 0 {
				return ""
			}
			rest = rest[end+1:]
		}
		if name == "" || rest == "" {
			return name
		}
		if rest[0] != '.' {
			return ""
		}
		rest = rest[1:]
	}
}

// ColumnOf returns the column of t that a path names. It returns "" for an expression, and for a path to a value inside
// the body or inside a column.
func ColumnOf(t replicator.Table, path string) string {
	if !strings.HasPrefix(path, "$") && t.Body != "" || strings.HasPrefix(path, "=") {
		return ""
	}
	return columnName(path)
}

// Origin is the data that a view's path refers to.
type Origin struct {
	Table string
	Path  string // path within the table's row; "": the whole row
	List  bool   // the path refers to a list of all rows of the join
	Join  *replicator.Join
}

// Whole reports whether the origin is a list of rows or a whole joined row, and not a single value of a row.
func (o Origin) Whole() bool { return o.List || o.Join != nil && o.Path == "" }

// OriginsOf returns the data that a view's path refers to. A path that starts with a join's name refers to rows of the
// join. Any other path refers to a row of each table that feeds the view.
func OriginsOf(v *replicator.View, path string) (origins []Origin) {
	j := joinOf(v, path)
	if j == nil {
		for _, f := range v.From {
			origins = append(origins, Origin{Table: f.Table, Path: path})
		}
		return origins
	}
	_, rest := cutName(path)
	o := Origin{Table: j.Table, Join: j}
	if strings.HasPrefix(rest, "[") {
		bracket, after, _ := strings.Cut(rest, "]")
		o.List, rest = bracket == "[", after
	} else {
		o.List = j.Many
	}
	o.Path = strings.TrimPrefix(rest, ".")
	if len(j.Fields) > 0 && o.Path != "" {
		name, rest := cutName(o.Path)
		for _, f := range j.Fields {
			if f.Name == name {
				o.Path = f.Path + rest
				break
			}
		}
	}
	return []Origin{o}
}

// joinOf returns the join whose name a path starts with, or nil if the path refers to the view's own row.
func joinOf(v *replicator.View, path string) *replicator.Join {
	name, _ := cutName(path)
	i := slices.IndexFunc(v.Joins, func(j replicator.Join) bool { return j.Name == name })
	if i < 0 {
		return nil
	}
	return &v.Joins[i]
}

// inQuotes returns a hint how to write a text as a single name in a path. It returns "" if quotes would not help.
func inQuotes(text string) string {
	name, own := strings.CutPrefix(text, "$")
	if !strings.ContainsAny(name, `.["]`) || strings.HasPrefix(name, `"`) {
		return ""
	}
	path := quoted(name)
	if own {
		path = "$" + path
	}
	written := "'" + path + "'"
	if strings.Contains(path, "'") {
		written = strconv.Quote(path)
	}
	return "; if that is one name, write " + written
}

// columnName returns the column that a path names, with or without $. It returns "" for a path to a value inside a
// column.
func columnName(path string) string {
	name, rest := cutName(strings.TrimPrefix(path, "$"))
	if rest != "" {
		return ""
	}
	return name
}

// ColumnPath returns the path of a column of the view's own row.
func ColumnPath(column string) string {
	if name, _ := cutName(column); name == column {
		return "$" + column
	}
	return "$" + quoted(column)
}

func quoted(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// cutName cuts a name from the start of s. The name is "" if s doesn't start with a name.
func cutName(s string) (name, rest string) {
	name, rest, _ = keytemplate.CutName(s) // the error is dropped, because package view reports malformed paths
	return name, rest
}

func references(template string) ([]string, error) {
	parts, _, err := keytemplate.Parse(template)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range parts {
		if formats := keytemplate.Forms(); p.Form != "" && !slices.Contains(formats, p.Form) {
			return nil, fmt.Errorf("%q is not a template format%s", p.Form, nearest.Meant(p.Form, formats))
		}
		if PathName(p.Path) == "" {
			return nil, fmt.Errorf("%s does not name a path. Templates consist of text and {path}, {path:uuid}, "+
				"{path:hex} or {path:base64}", p)
		}
		names = append(names, p.Path)
	}
	return names, nil
}
