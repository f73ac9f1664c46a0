package elastic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"replicator"
)

// sourceField is what a mapping says of _source, which is all that a document reads back as.
type sourceField struct {
	Enabled  *bool    `json:"enabled"`
	Mode     string   `json:"mode"` // index.mapping.source.mode sets it, too
	Includes []string `json:"includes"`
	Excludes []string `json:"excludes"`
}

// with is what Elasticsearch makes of a template's and of an index's own: it joins lists, and of the rest the index's own
// counts.
func (f sourceField) with(own sourceField) sourceField {
	return sourceField{Enabled: cmp.Or(own.Enabled, f.Enabled), Mode: cmp.Or(own.Mode, f.Mode),
		Includes: slices.Concat(f.Includes, own.Includes), Excludes: slices.Concat(f.Excludes, own.Excludes)}
}

// sourceField is what the index's mapping and settings say of _source.
func (i indexInfo) sourceField() sourceField {
	f := i.Mappings.Source
	f.Mode = cmp.Or(f.Mode, i.Settings.Index.Mapping.Source.Mode)
	return f
}

// keeps reports whether a field is in _source, whatever it holds.
func (f sourceField) keeps(name string) bool {
	if f.Mode == "disabled" || f.Enabled != nil && !*f.Enabled {
		return false
	}
	matches := func(pattern string) bool {
		start, wild := strings.CutSuffix(pattern, "*")
		return pattern == name || wild && !strings.Contains(start, "*") && strings.HasPrefix(name, start)
	}
	if len(f.Includes) > 0 && !slices.ContainsFunc(f.Includes, matches) {
		return false
	}
	return !slices.ContainsFunc(f.Excludes, func(pattern string) bool { return touches(pattern, name) })
}

// touches reports whether a pattern may be one of a field, or of anything in it: an asterisk is any text, dots too.
func touches(pattern, name string) bool {
	start, _, wild := strings.Cut(pattern, "*")
	if !wild {
		start += "."
	}
	return strings.HasPrefix(name+".", start) || strings.HasPrefix(start, name+".")
}

// keeping fails where _source lacks a view's field, or the state: what is not there can't be judged by, and looks as if
// somebody had removed it.
func (f sourceField) keeping(v *replicator.View) error {
	names := []string{stateField}
	for _, field := range v.Fields {
		names = append(names, field.Name)
	}
	for _, name := range names {
		if !f.keeps(name) {
			return replicator.Fatal(fmt.Errorf("the index's mapping leaves %s out of _source, by a template, mapping_file or "+
				"settings_file, and the program must read what it wrote: let _source be as it is by default for the indexes "+
				"%s-r*, or leave out only what is neither %s nor a field of the view", name, settingsOf(v).Index, stateField))
		}
	}
	return nil
}
