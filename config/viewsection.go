package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"replicator"
)

// ViewSection is a view's section of the file, after the view's sink and kind were read. SinkType.ReadView reads the
// rest of the view from it.
type ViewSection struct {
	*Section
	View   *replicator.View // the view; the settings that all views have are already set
	Sink   *Sink
	Config *Config // the configuration, with the source, tables and sinks already read
}

// Fields reads a view's fields: a list of paths, or a table of names and paths.
func (s *ViewSection) Fields(key, example string) []replicator.Field {
	example += ` or { name = "path" }`
	var fields []replicator.Field
	if s.IsTable(key) {
		for _, p := range s.Table(key, example) {
			s.path(key, p)
			fields = append(fields, replicator.Field{Name: p.Name, Path: p.Text})
		}
		return fields
	}
	for _, p := range s.List(key, example) {
		if strings.HasPrefix(p.Text, "=") {
			s.ProblemAt(p, key, "an expression needs a name. Write { NAME = %q }", p.Text)
			continue
		}
		s.path(key, p)
		fields = append(fields, replicator.Field{Name: s.fieldName(p.Text), Path: p.Text})
	}
	return fields
}

// fieldName returns the default name of a field that has only a path. For a path into a join, such as customer.$name,
// the name lacks the $.
func (s *ViewSection) fieldName(path string) string {
	name := PathName(path)
	if s.View != nil && joinOf(s.View, path) != nil {
		name = strings.TrimPrefix(name, "$")
	}
	return name
}

// looksComputed matches a text that is probably not a path, because it has an operator between spaces, or a call.
var looksComputed = regexp.MustCompile(`^[^"\']*\s[-+*/%]\s[^"\']*$|^[a-z][a-z0-9_]*\([^"\']*\)$`)

// path checks the form of a path. Expressions are parsed later, when the view is compiled.
func (s *ViewSection) path(key string, p Pair) {
	if strings.HasPrefix(p.Text, "=") {
		if strings.TrimSpace(p.Text) == "=" {
			s.ProblemAt(p, key, "an expression must follow the =")
		}
		return
	}
	if looksComputed.MatchString(p.Text) {
		named := "=" + p.Text
		written := strconv.Quote(named)
		if key == "sum" && s.Sink != nil && s.Sink.Type == "mysql" {
			written = fmt.Sprintf("{ total = %q }", named)
		}
		s.ProblemAt(p, key, "%q looks like an expression, and an expression begins with =. Write %s, or '%s' if it "+
			"is a single name",
			p.Text, written, quoted(p.Text))
		return
	}
	if PathName(p.Text) == "" {
		s.ProblemAt(p, key, `%q is not a path; paths are "email", "address.city", "tags[]", "$column" or "=expression"%s`,
			p.Text, inQuotes(p.Text))
	}
}

// Amount returns the last field of a counter or ranking: the amount that the view sums. sum is the path of the amount,
// as given by the key `sum`. If sum is empty, the view counts rows, so each amount is 1.
func (s *ViewSection) Amount(sum, name string) replicator.Field {
	if sum == "" {
		return replicator.Field{Name: name, Path: "=1"}
	}
	s.path("sum", Pair{Text: sum, line: s.line("sum")})
	return replicator.Field{Name: name, Path: sum}
}

// Template reads a template and checks its form: {path} or {path:format}.
func (s *ViewSection) Template(key string) string {
	text := s.Name(key, "", TemplateExample)
	if _, err := references(text); err != nil {
		s.Problem(key, "%v", err)
	}
	return text
}

// Covers checks that a template contains exactly the columns of the table's key. key is the setting with the template,
// for the error message. An empty template is valid, because it stands for the table's key.
func (s *ViewSection) Covers(key, template string) {
	if template == "" {
		return
	}
	names, err := references(template)
	if err != nil {
		return // the check of the template's form reported the error
	}
	s.MadeOfKey(key, names)
}

// MadeOfKey checks that paths are exactly the key columns of every table that feeds the view. key is the setting with
// the paths.
func (s *ViewSection) MadeOfKey(key string, paths []string) {
	columns := make([]string, len(paths))
	for i, path := range paths {
		columns[i] = columnName(path)
	}
	done := map[string]bool{}
	for _, f := range s.View.From {
		table := s.Config.Table(f.Table)
		if done[table.Name] || len(table.Key) == 0 { // an earlier check reported the missing key
			continue
		}
		done[table.Name] = true
		for i, column := range columns {
			if !slices.Contains(table.Key, column) {
				s.Problem(key, "%q is not in the key of the table %s (%s). The key of a %s must consist of the "+
					"table's key, so that an entry never moves. To find cells by another property, use an index",
					strings.TrimPrefix(paths[i], "$"), table.Name, strings.Join(table.Key, ", "), s.View.Kind)
				return
			}
		}
		for _, column := range table.Key {
			if !slices.Contains(columns, column) {
				s.Problem(key, "lacks the column %q of the key of the table %s (%s). Cells that differ only in it "+
					"would overwrite each other",
					column, table.Name, strings.Join(table.Key, ", "))
				return
			}
		}
	}
}

func (s *ViewSection) distinct(target Target) {
	names, fold := target.Names, target.Fold
	if names == nil {
		for _, f := range s.View.Fields {
			names = append(names, TargetName{"fields", f.Name})
		}
	}
	if fold == nil {
		fold = strings.Clone
	}
	seen := map[string]bool{}
	for _, n := range names {
		same := fold(n.Name)
		if seen[same] {
			s.Problem(n.Key, "the column or field name %q occurs twice in the view. Rename one of the two, as in "+
				"{ OTHER_NAME = \"PATH\" }", n.Name)
		}
		seen[same] = true
	}
}
