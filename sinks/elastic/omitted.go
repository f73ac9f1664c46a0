package elastic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"replicator"
)

// sourceField is an index's rules for _source. Fields that _source omits can't be read back.
type sourceField struct {
	Enabled  *bool    `json:"enabled"`
	Mode     string   `json:"mode"` // also set by index.mapping.source.mode
	Includes []string `json:"includes"`
	Excludes []string `json:"excludes"`
}

// overriddenBy combines a template's rules for _source with an index's own rules, as Elasticsearch does. Includes and
// Excludes of both apply. The index's own Enabled and Mode override those of the template.
func (f sourceField) overriddenBy(own sourceField) sourceField {
	return sourceField{Enabled: cmp.Or(own.Enabled, f.Enabled), Mode: cmp.Or(own.Mode, f.Mode),
		Includes: slices.Concat(f.Includes, own.Includes), Excludes: slices.Concat(f.Excludes, own.Excludes)}
}

func (i indexInfo) sourceField() sourceField {
	f := i.Mappings.Source
	f.Mode = cmp.Or(f.Mode, i.Settings.Index.Mapping.Source.Mode)
	return f
}

// keeps reports whether _source keeps a field and everything in it.
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

// touches reports whether a pattern may match a field or anything in it. An asterisk matches any text, including dots.
func touches(pattern, name string) bool {
	start, _, wild := strings.Cut(pattern, "*")
	if !wild {
		start += "."
	}
	return strings.HasPrefix(name+".", start) || strings.HasPrefix(start, name+".")
}

// keeping fails if _source omits a view's field or the state. Replicator could not read them back, and omitted fields
// would look as if a user had removed them.
func (f sourceField) keeping(v *replicator.View) error {
	names := []string{stateField}
	for _, field := range v.Fields {
		names = append(names, field.Name)
	}
	for _, name := range names {
		if !f.keeps(name) {
			return replicator.Fatal(fmt.Errorf("the index's mapping omits %s from _source, because of a template, "+
				"mapping_file or settings_file, but the program must read back what it wrote. Use the default "+
				"_source for the indexes %s-r*, or omit only fields other than %s and the view's "+
				"fields", name, settingsOf(v).Index, stateField))
		}
	}
	return nil
}
