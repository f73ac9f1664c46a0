package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/config"
	"replicator/internal/seen"
)

// What is one key is what the source's own column takes for one. A target has to tell apart what the source does: where
// its column takes 'zz' and 'ZZ', or 'a' and 'a ', for one value and the source doesn't, two entities share rows, and
// each change of one takes the other's away. So tables are created with binary collations, and one that somebody else
// made is refused where its columns can't tell.

// SourceColumn is a column of a source's table.
type SourceColumn config.Column

// kind is the type's name alone.
func (c *SourceColumn) kind() string {
	name, _, _ := strings.Cut(strings.ToLower(c.Type), "(")
	name, _, _ = strings.Cut(name, " ")
	return name
}

// tellsSpaces reports whether values that differ in spaces at their ends are different. CHAR, ENUM and SET hold none.
func (c *SourceColumn) tellsSpaces() bool {
	switch c.kind() {
	case "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return true
	case "char", "enum", "set":
		return false
	}
	return c.Collation != "" && keepsSpaces(c.Collation)
}

// keepsSpaces reports whether a collation is a NO PAD one: all others, most _bin ones among them, ignore spaces at the
// end.
func keepsSpaces(collation string) bool {
	return strings.Contains(collation, "_0900_") || strings.Contains(collation, "_nopad_") || collation == "binary"
}

// exact reports whether a column takes no values for equal that are not the same, but for spaces at their ends.
func (c *column) exact() bool {
	return !c.collates() && c.typ != "enum" && c.typ != "set" || strings.HasSuffix(c.collation, "_bin")
}

// keepsSpaces reports whether a column takes values for two that differ in spaces at their ends, or takes none that end
// in one.
func (c *column) keepsSpaces() bool {
	return c.typ != "varchar" && !strings.HasSuffix(c.typ, "text") || keepsSpaces(c.collation)
}

// tellsApart reports whether a column holds any two values of the source's column as two.
func (s *Sink) tellsApart(c *column, from *SourceColumn, mariaDB bool) bool {
	if c.collation == "" {
		return true // what can't be held as another value is rejected
	}
	switch kind := from.kind(); {
	case kind == "binary" && from.Type == "binary(16)" && c.typ == "char" && (c.chars == 36 || c.chars == 32):
		return true // a UUID's digits
	case kind != "binary" && kind != "varbinary" && !strings.HasSuffix(kind, "blob") && from.Collation == "":
		return true // digits of numbers, dates, addresses
	}
	if c.exact() {
		return c.keepsSpaces() || !from.tellsSpaces()
	}
	later := mariaDB && strings.Contains(c.collation, "_0900_") // an alias of a later table of weights
	return asFine(c.collation, from.Collation) && !later
}

// asFine reports whether a collation tells apart whatever another does: it is the same, or the same rules with accents
// and case. What holds in utf8mb3 holds in utf8mb4.
func asFine(collation, than string) bool {
	set, rules, _ := strings.Cut(collation, "_")
	otherSet, otherRules, _ := strings.Cut(than, "_")
	if set != otherSet && !(strings.HasPrefix(set, "utf8") && (otherSet == "utf8" || otherSet == "utf8mb3")) {
		return false
	}
	if rules == otherRules {
		return than != ""
	}
	levels := []string{"ai_ci", "as_ci", "as_cs"}
	level := func(rules string) int {
		return slices.IndexFunc(levels, func(l string) bool { return strings.HasSuffix(rules, "_"+l) || rules == l })
	}
	fine, coarse := level(rules), level(otherRules)
	return fine > coarse && coarse >= 0 &&
		strings.TrimSuffix(rules, levels[fine]) == strings.TrimSuffix(otherRules, levels[coarse])
}

// byBytes is a character set of the server's and a collation of it that tells apart all texts: of the wanted set,
// unless that has none that keeps spaces at the end where they count.
func (s *Sink) byBytes(ctx context.Context, charset string, spaces bool) (set, collation string, err error) {
	var wanted []string
	charset = strings.Replace(charset, "utf8mb3", "utf8", 1)
	for _, set := range []string{charset, "utf8mb4"} {
		names := []string{set}
		if set == "utf8" {
			names = []string{"utf8mb3", "utf8"} // older servers have only the second name
		}
		for _, n := range names {
			if spaces {
				wanted = append(wanted, n+"_nopad_bin", n+"_0900_bin")
			} else {
				wanted = append(wanted, n+"_bin")
			}
		}
	}
	wanted = append(wanted, "utf8mb4_bin") // MySQL before 8.0.17 has none that keeps spaces
	args := make([]any, len(wanted))
	for i, w := range wanted {
		args[i] = w
	}
	there, err := texts(ctx, s.db, "SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE COLLATION_NAME IN ("+
		placeholders(len(args))+")", args...)
	if err != nil {
		return "", "", classify(err, "asking for the server's collations")
	}
	for _, collation := range wanted {
		if slices.Contains(there, collation) {
			set, _, _ := strings.Cut(collation, "_")
			return set, collation, nil
		}
	}
	return "utf8mb4", "utf8mb4_bin", nil
}

// origins are the columns of a source's tables, asked for once.
type origins struct {
	ask   func(ctx context.Context, source, table string) ([]SourceColumn, error)
	of    string // the source; "": any, for they are alike
	known map[string][]SourceColumn

	sample func(ctx context.Context, source string, v *replicator.View) ([]seen.Values, error)
}

func (s *Sink) origins(source string) *origins {
	return &origins{ask: s.columns, of: source, known: map[string][]SourceColumn{}, sample: s.samples}
}

// samples are what was seen of the view's fields in the source's bodies; nil where the source can't be asked.
func (o *origins) samples(ctx context.Context, v *replicator.View) ([]seen.Values, error) {
	if o.sample == nil {
		return nil, nil
	}
	return o.sample(ctx, o.of, v)
}

// column finds the column of a source's table that a path names; nil if it names none, or if the source can't be asked
// at all.
func (o *origins) column(ctx context.Context, t replicator.Table, path string) (*SourceColumn, error) {
	name := config.ColumnOf(t, path)
	if o.ask == nil || name == "" {
		return nil, nil
	}
	if _, asked := o.known[t.Name]; !asked {
		columns, err := o.ask(ctx, o.of, t.Name)
		if err != nil {
			return nil, replicator.OfSource(
				fmt.Errorf("asking the source for the columns of table %s: %w", t.Name, err))
		}
		o.known[t.Name] = columns
	}
	columns := o.known[t.Name]
	i := slices.IndexFunc(columns, func(c SourceColumn) bool { return strings.EqualFold(c.Name, name) })
	if i < 0 {
		return nil, nil
	}
	return &columns[i], nil
}

// confuses says which of the columns that make the view's rows can't tell apart what the source's columns do: those of
// its key, or of a counter's group.
func (s *Sink) confuses(ctx context.Context, k *keeper, from *origins) ([]string, error) {
	fields, columns := settingsOf(k.view).KeyFrom, k.keys
	if k.ledger {
		fields, columns = k.view.Fields[:len(k.view.Fields)-1], k.group()
	}
	srv, err := s.ask(ctx)
	if err != nil {
		return nil, err
	}
	var problems []string
	k.origin = make([]*SourceColumn, len(k.keys))
	for i, f := range fields {
		properties := false // some of its values are properties, which are all told apart
		for _, o := range config.OriginsOf(k.view, f.Path) {
			origin, err := from.column(ctx, s.tables[o.Table], o.Path)
			if err != nil {
				return nil, err
			}
			if properties = properties || origin == nil; !k.ledger && k.origin[i] == nil {
				k.origin[i] = origin
			}
			if origin == nil || s.tellsApart(columns[i], origin, srv.isMariaDB()) {
				continue
			}
			alter, err := s.alter(ctx, k, columns[i], origin.tellsSpaces())
			if err != nil {
				return nil, err
			}
			theirs := strings.TrimSpace(origin.Type + " " + origin.Collation)
			problems = append(problems, fmt.Sprintf("its column %s, %s %s, takes values for one "+
				"that column %s of table %s at the source, %s, tells apart: %s, and then `replicator verify --repair %s`",
				columns[i].name, columns[i].declared, columns[i].collation, origin.Name,
				o.Table, theirs, alter, k.view.Name))
			break
		}
		if properties && from.ask != nil && !(columns[i].exact() && columns[i].keepsSpaces()) {
			k.loose = append(k.loose, columns[i])
		}
	}
	if len(k.loose) > 0 && len(problems) == 0 {
		k.alter, err = s.alter(ctx, k, k.loose[0], true)
	}
	return problems, err
}

// alter is the statement that makes a column tell apart all texts.
func (s *Sink) alter(ctx context.Context, k *keeper, c *column, spaces bool) (string, error) {
	set, collation, err := s.byBytes(ctx, c.charset, spaces && c.typ != "char")
	if err != nil {
		return "", err
	}
	null := " NOT NULL"
	if c.nullable {
		null = " NULL"
	}
	typ := c.declared + " CHARACTER SET " + set + " COLLATE " + collation
	if spaces && c.typ != "char" && !keepsSpaces(collation) { // MySQL before 8.0.17
		typ = asBytes(c)
	}
	return "ALTER TABLE " + k.table + " MODIFY " + c.quoted + " " + typ + null, nil
}

// asBytes is the type that holds a text column's texts as bytes of UTF-8.
func asBytes(c *column) string {
	if size := 0; c.typ == "varchar" {
		_, _ = fmt.Sscanf(c.declared, "varchar(%d)", &size)
		return fmt.Sprintf("varbinary(%d)", 4*size)
	}
	return strings.Replace(c.declared, "text", "blob", 1)
}
