package config

import (
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/keytemplate"
	"replicator/internal/nearest"
)

func commonKeys() []string { return []string{"from", "sink", "kind", "where", "on_change", "join"} }

func (l *loader) views(root *Section) {
	names, sections := root.named("views")
	kept := map[string][]neighbour{} // by sink type and place (such as a table): the views in that place
	for i, s := range sections {
		v, target := l.view(names[i], s)
		l.config.lines[v.Name] = s.at.line
		for key, n := range s.at.fields {
			l.config.lines[v.Name+"."+key] = n.line
		}
		l.config.Views = append(l.config.Views, v)
		own := neighbour{v.Name, target.Template}
		shared := ""
		for _, place := range target.Places {
			place = l.config.Sink(v.Sink).Type + "\x00" + place
			for _, other := range kept[place] {
				if shared == "" && other.view != v.Name {
					shared = own.conflict(other, target.Key)
				}
			}
			kept[place] = append(kept[place], own)
		}
		if shared != "" {
			s.Problem(target.Key, "%s", shared)
		}
	}
}

type neighbour struct{ view, template string }

// conflict returns why two views can't share a place (such as a table), or "" if they can. key is the setting to change
// in case of a conflict.
func (n neighbour) conflict(other neighbour, key string) string {
	switch {
	case n.template == "" || other.template == "":
		return fmt.Sprintf("the view %s is kept in the same place. Give this view another %s", other.view, key)
	case keytemplate.Meet(n.template, other.template):
		return fmt.Sprintf("%q and the template of the view %s, %q, can make the same key, so the views would "+
			"overwrite each other's entries. Begin the two templates with different text, such as %q",
			n.template, other.view, other.template, n.view+":{…}")
	}
	return ""
}

func (l *loader) view(name string, s *Section) (*replicator.View, Target) {
	for _, t := range l.types {
		for _, kind := range t.Kinds {
			for _, key := range kind.keys() {
				s.knows(key)
			}
		}
	}
	v := &replicator.View{Name: name}
	v.From = l.feeds(s)
	l.joins(s, v)
	v.Where = s.Name("where", "", `"activate == true"`)
	v.OnChange = s.choice("on_change", "refuse", "rebuild")
	sink, kind := l.kind(s, v)
	if kind.Name == "" {
		s.reportKeys()
		return v, Target{} // without a kind, the view's other keys can't be checked
	}
	s.allowOnly(append(commonKeys(), kind.keys()...), kind.Not, "kind "+kind.Name+" of a "+sink.Type+" sink")
	for _, key := range kind.Need {
		s.Need(key.Name, key.Example)
	}
	own := &ViewSection{Section: s, View: v, Sink: sink, Config: l.config}
	v.Fields = own.Fields("fields", FieldsExample)
	target := sink.kind.ReadView(own)
	own.distinct(target)
	s.reportKeys()
	return v, target
}

// kind reads a view's sink and kind. The Kind is empty if either is wrong.
func (l *loader) kind(s *Section, v *replicator.View) (*Sink, Kind) {
	s.Need("sink", `"main"`)
	s.Need("kind", `"index"`)
	v.Sink = s.Name("sink", "", `"main"`)
	v.Kind = s.Name("kind", "", `"index"`)
	sink := l.config.Sink(v.Sink)
	if sink == nil {
		if v.Sink != "" {
			s.Problem("sink", "there is no [sinks.%s]%s", v.Sink, l.sinksFor(v.Sink, v.Kind))
		}
		return nil, Kind{}
	}
	var kinds []string
	for _, kind := range sink.kind.Kinds {
		if kind.Name == v.Kind {
			return sink, kind
		}
		kinds = append(kinds, kind.Name)
	}
	if v.Kind != "" && len(kinds) > 0 {
		s.Problem("kind", "a %s sink has no kind %q%s", sink.Type, v.Kind, nearest.Meant(v.Kind, kinds))
	}
	return sink, Kind{}
}

// sinksFor suggests what to write instead of an unknown sink: the sinks that support the kind. If the file has no such
// sink, the result says how to configure one.
func (l *loader) sinksFor(written, kind string) string {
	var names, types []string
	for _, t := range l.types {
		if kind == "" || slices.ContainsFunc(t.Kinds, func(k Kind) bool { return k.Name == kind }) {
			types = append(types, t.Name)
		}
	}
	for _, k := range l.config.Sinks {
		if len(types) == 0 || slices.Contains(types, k.Type) {
			names = append(names, k.Name)
		}
	}
	if slices.Contains(types, written) { // the file has a sink's type instead of its name
		types = []string{written}
		names = slices.DeleteFunc(names, func(name string) bool { return l.config.Sink(name).Type != written })
	}
	if len(names) > 0 || len(types) == 0 {
		return nearest.Meant(written, names)
	}
	text := fmt.Sprintf("; add a sink with type = %q", types[0])
	if kind != "" {
		text += fmt.Sprintf(", which views of kind %q need", kind)
	}
	return text
}

// feeds reads the setting `from`. Its items are TABLE or TABLE.VALUE. VALUE selects rows by the column that the table's
// `column` setting names. Names of tables contain no dot, so the value is everything after the first dot.
func (l *loader) feeds(s *Section) []replicator.Feed {
	s.Need("from", `"cell.users"`)
	var feeds []replicator.Feed
	for _, p := range s.List("from", `"cell.users"`) {
		name, value, has := strings.Cut(p.Text, ".")
		table := l.config.Table(name)
		switch {
		case table == nil:
			var names []string
			for _, t := range l.config.Tables {
				names = append(names, t.Name)
			}
			s.ProblemAt(p, "from", "there is no [tables.%s]%s", name, nearest.Meant(name, names))
			continue
		case table.Pattern && s.Has("join"):
			s.ProblemAt(p, "from", "[tables.%s] stands for several tables (%s), and a view of such a table can't have joins",
				name, table.Table)
		case table.Pattern && l.kafkaSink(s):
			s.ProblemAt(p, "from", "[tables.%s] stands for several tables (%s), which can't be published to Kafka",
				name, table.Table)
		case has && table.Column == "":
			s.ProblemAt(p, "from",
				"the table %s has no column role. Write from = %q, or set column = \"…\" in [tables.%s]", name, name,
				name)
		case has && value == "":
			s.ProblemAt(p, "from", "%s ends with a dot. Write from = \"%s.VALUE\", with a value of the column %s",
				p.Text, name, table.Column)
		}
		for _, f := range feeds {
			if f.Table == name && (f.Column == "" || value == "" || f.Column == value) {
				s.ProblemAt(p, "from", "%s and an item before it feed the view the same cells. Remove one of the two",
					p.Text)
			}
		}
		feeds = append(feeds, replicator.Feed{Table: name, Column: value})
	}
	return feeds
}
