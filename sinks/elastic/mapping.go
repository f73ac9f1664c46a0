package elastic

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/config"
	"replicator/internal/seen"
)

// Without a mapping_file, fields are mapped by their types at the source, so that Elasticsearch refuses no value that
// the source can hold. A value that Elasticsearch can't index stays in _source, and the document's _ignored names the
// field. Examples are a date without a day, or a text where numbers were seen.

// made returns the mapping that replicator derives for a view's fields. It omits fields about which nothing is known.
// Elasticsearch maps those by their first value, but never as dates, because the next value may not be a date.
func (s *Sink) made(ctx context.Context, v *replicator.View) (object, error) {
	var sampled []seen.Values
	var err error
	if s.config.Samples != nil {
		if sampled, err = s.config.Samples(ctx, "", v); err != nil {
			return nil, fmt.Errorf("looking at the source's rows for a mapping: %w", err)
		}
	}
	columns := map[string][]config.Column{}
	properties := object{}
	for i, f := range v.Fields {
		var of seen.Values
		if i < len(sampled) {
			of = sampled[i]
		}
		mapping, err := s.fieldMapping(ctx, v, f, &of, columns)
		if err != nil {
			return nil, err
		}
		if mapping != nil {
			properties[f.Name] = mapping
		}
	}
	return object{"date_detection": false, "properties": properties}, nil
}

// fieldMapping returns a field's mapping, derived from its columns and from what was seen in bodies; nil if nothing is
// known. columns caches the columns already requested, by table.
func (s *Sink) fieldMapping(ctx context.Context, v *replicator.View, f replicator.Field, of *seen.Values,
	columns map[string][]config.Column) (object, error) {
	var found []object
	inBodies := false
	for _, o := range config.OriginsOf(v, f.Path) {
		name := config.ColumnOf(s.tables[o.Table], o.Path)
		joined := o.Whole() && o.Path == ""
		if inBodies = inBodies || name == ""; name == "" && !joined || s.config.Columns == nil {
			continue
		}
		if _, asked := columns[o.Table]; !asked {
			all, err := s.config.Columns(ctx, "", o.Table)
			if err != nil {
				return nil, replicator.OfSource(
					fmt.Errorf("asking the source for the columns of table %s: %w", o.Table, err))
			}
			columns[o.Table] = all
		}
		if joined {
			if m := ofJoined(o.Join, s.tables[o.Table], columns[o.Table]); m != nil {
				return m, nil
			}
		}
		for _, c := range columns[o.Table] {
			if strings.EqualFold(c.Name, name) {
				found = append(found, ofColumn(c.Type, of))
			}
		}
	}
	if inBodies && !of.Nothing() {
		found = append(found, ofSampled(of))
	}
	if len(found) == 0 {
		return nil, nil
	}
	for _, other := range found[1:] {
		if !reflect.DeepEqual(found[0], other) {
			return ofAnything(found), nil
		}
	}
	return found[0], nil
}

// ofJoined returns the mapping of a join's rows, derived from their columns. It returns nil if a field is not a column.
func ofJoined(j *replicator.Join, t replicator.Table, columns []config.Column) object {
	fields := j.Fields
	if len(fields) == 0 && t.Body == "" {
		for _, c := range columns {
			fields = append(fields, replicator.Field{Name: c.Name, Path: config.ColumnPath(c.Name)})
		}
	}
	properties := object{}
	for _, f := range fields {
		name := config.ColumnOf(t, f.Path)
		i := slices.IndexFunc(columns, func(c config.Column) bool { return strings.EqualFold(c.Name, name) })
		if i < 0 {
			return nil
		}
		properties[f.Name] = ofColumn(columns[i].Type, &seen.Values{})
	}
	if len(properties) == 0 {
		return nil
	}
	return object{"properties": properties}
}

// ofAnything returns the mapping of a field that has different types in different tables.
func ofAnything(found []object) object {
	for _, m := range found {
		if m["type"] == "flattened" || m["type"] == "object" {
			return unsearched()
		}
	}
	return keyword()
}

// longestTerm is the maximum number of characters in a term, because Lucene accepts 32,766 bytes.
const longestTerm = 8191

func keyword() object { return object{"type": "keyword", "ignore_above": longestTerm} }

// phrase returns a mapping for texts. A search finds a text by its whole value, or by its words in FIELD.text.
func phrase() object {
	m := keyword()
	m["fields"] = object{"text": object{"type": "text"}}
	return m
}

// prose returns a mapping for texts. A search finds a text by its words, or a short text by its whole value in
// FIELD.keyword. Elasticsearch's default mapping does the same.
func prose() object {
	return object{"type": "text", "fields": object{"keyword": object{"type": "keyword", "ignore_above": 256}}}
}

// flattened returns a mapping for objects with any members. A search finds each member under PATH.MEMBER, by its whole
// value.
func flattened() object {
	return object{"type": "flattened", "ignore_above": longestTerm, "depth_limit": 200}
}

// unsearched returns a mapping for a field that may hold any JSON. Elasticsearch stores the field, but does not index
// it.
func unsearched() object { return object{"type": "object", "enabled": false} }

// Texts of a column of at most shortText characters can be searched only as a whole.
const shortText = 32

// ofColumn returns the mapping of a column's values. The parameter `of` summarizes the sampled values of a JSON column.
func ofColumn(declared string, of *seen.Values) object {
	name, size, _ := strings.Cut(strings.ToLower(declared), "(")
	name, _, _ = strings.Cut(name, " ")
	size, _, _ = strings.Cut(size, ")")
	length, _ := strconv.Atoi(size) // 0: the column has no length
	switch name {
	case "tinyint", "smallint", "mediumint", "int", "year":
		return object{"type": "long"}
	case "bigint", "bit":
		if strings.Contains(strings.ToLower(declared), "unsigned") || name == "bit" && length > 63 {
			return object{"type": "unsigned_long"}
		}
		return object{"type": "long"}
	case "decimal", "float", "double":
		return object{"type": "double"}
	case "date":
		return object{"type": "date", "format": "uuuu-MM-dd||" + isoFormats}
	case "datetime", "timestamp":
		return object{"type": "date", "format": timeFormats(length)}
	case "char", "varchar":
		if length > shortText {
			return phrase()
		}
	case "tinytext", "text", "mediumtext", "longtext":
		return prose()
	case "json":
		return ofJSON(of)
	}
	return keyword() // ENUM, SET, TIME; short texts; binary values, as hexadecimal digits; network addresses
}

// withoutUnsigned replaces unsigned_long in a design with double, because distributions without X-Pack lack
// unsigned_long. Searches are then inexact beyond 2^53. It reports whether it replaced any type.
func withoutUnsigned(design object) (changed bool) {
	return unsignedAsDouble(member(member(design, "mappings"), "properties"))
}

func unsignedAsDouble(properties object) (changed bool) {
	for _, field := range properties {
		m, _ := field.(object)
		if m["type"] == "unsigned_long" {
			m["type"], changed = "double", true
		}
		inner, _ := m["properties"].(object) // the fields of a join's rows
		changed = unsignedAsDouble(inner) || changed
	}
	return changed
}

// isoFormats are date formats that only queries use. Stored values never have these forms.
const isoFormats = "strict_date_optional_time||epoch_millis"

// timeFormats returns the formats of a column's dates and times. The format with the column's number of fractional
// digits comes first, because Elasticsearch prints dates in the first format.
func timeFormats(digits int) string {
	const seconds = "uuuu-MM-dd HH:mm:ss"
	form := func(n int) string {
		if n == 0 {
			return seconds
		}
		return seconds + "." + strings.Repeat("S", n)
	}
	formats := []string{form(digits)}
	for n := range 7 {
		if n != digits {
			formats = append(formats, form(n))
		}
	}
	return strings.Join(append(formats, isoFormats), "||")
}

// ofJSON returns the mapping of a JSON column. Objects can be searched only if no other values were seen, because a
// field in Elasticsearch accepts either objects or other values.
func ofJSON(of *seen.Values) object {
	all := flat(of)
	if all.Objects > 0 && all.Scalars() == 0 {
		return flattened()
	}
	return unsearched()
}

// flat summarizes the seen values as Elasticsearch counts them: a list counts as its elements.
func flat(of *seen.Values) seen.Values {
	all := *of
	if e := of.Elements; e != nil {
		all.Texts += e.Texts
		all.Bytes += e.Bytes
		all.UUIDs += e.UUIDs
		all.Booleans += e.Booleans
		all.Objects += e.Objects
		all.Integers += e.Integers
		all.Decimals += e.Decimals
		all.Floats += e.Floats
	}
	return all
}

func ofSampled(of *seen.Values) object {
	all := flat(of)
	texts := all.Texts + all.UUIDs + all.Bytes
	switch scalars := all.Scalars(); {
	case all.Objects > 0 && scalars > 0:
		return unsearched()
	case all.Objects > 0:
		return flattened()
	case texts > 0:
		return prose()
	case scalars == 0: // only empty lists were seen
		return keyword()
	case all.Booleans == scalars:
		return object{"type": "boolean"}
	case all.Booleans > 0:
		return keyword()
	case all.Integers < scalars:
		return object{"type": "double"}
	case fits(of) && (of.Elements == nil || fits(of.Elements)):
		return object{"type": "long"}
	}
	return object{"type": "double"}
}

// fits reports whether all sampled integers fit into a long.
func fits(of *seen.Values) bool {
	return of.Integers == 0 || of.Least.IsInt64() && of.Greatest.IsInt64()
}
