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

// The source's column decides which keys are equal. If only the target's column treats 'zz' and 'ZZ' as equal, two
// entities share rows, and each change of one removes the other's rows. So the program creates tables with binary
// collations, and refuses an existing table that can't distinguish the keys.

// SourceColumn is a column of a source's table: its name, type, character set and collation.
type SourceColumn config.Column

func (c *SourceColumn) kind() string {
	name, _, _ := strings.Cut(strings.ToLower(c.Type), "(")
	name, _, _ = strings.Cut(name, " ")
	return name
}

// tellsSpaces reports whether trailing spaces make values different. CHAR, ENUM and SET don't store trailing spaces.
func (c *SourceColumn) tellsSpaces() bool {
	switch c.kind() {
	case "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return true
	case "char", "enum", "set":
		return false
	}
	return c.Collation != "" && keepsSpaces(c.Collation)
}

// keepsSpaces reports whether a collation is NO PAD. All others, including most _bin collations, ignore trailing
// spaces.
func keepsSpaces(collation string) bool {
	return strings.Contains(collation, "_0900_") || strings.Contains(collation, "_nopad_") || collation == "binary"
}

// exact reports whether a column treats only identical values as equal, apart from trailing spaces.
func (c *column) exact() bool {
	return !c.collates() && c.typ != "enum" && c.typ != "set" || strings.HasSuffix(c.collation, "_bin")
}

// keepsSpaces reports whether a column distinguishes values that differ only in trailing spaces. It also returns true
// for types that never hold trailing spaces, such as CHAR.
func (c *column) keepsSpaces() bool {
	return c.typ != "varchar" && !strings.HasSuffix(c.typ, "text") || keepsSpaces(c.collation)
}

// tellsApart reports whether a column distinguishes all values that the source's column distinguishes.
func (s *Sink) tellsApart(c *column, from *SourceColumn, mariaDB bool) bool {
	if c.collation == "" {
		return true // not a text: the column stores each value unchanged, or rejects it
	}
	switch kind := from.kind(); {
	case kind == "binary" && from.Type == "binary(16)" && c.typ == "char" && (c.chars == 36 || c.chars == 32):
		return true // a UUID is always written in one form
	case kind != "binary" && kind != "varbinary" && !strings.HasSuffix(kind, "blob") && from.Collation == "":
		return true // numbers, dates and addresses are always written in one form
	}
	if c.exact() {
		return c.keepsSpaces() || !from.tellsSpaces()
	}
	// In MariaDB, a _0900_ name is an alias of a collation with newer weights, which may treat other texts as equal.
	later := mariaDB && strings.Contains(c.collation, "_0900_")
	return asFine(c.collation, from.Collation) && !later
}

// asFine reports whether the first collation distinguishes all texts that the second one (than) distinguishes: both are
// the same, or the first differs only in that it also distinguishes accents or case. utf8mb3 counts as utf8mb4.
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

// byBytes returns a collation of the server that distinguishes all texts and, if spaces is set and the server can,
// trailing spaces. Its character set is charset if the server has such a collation for it, else utf8mb4.
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
	wanted = append(wanted, "utf8mb4_bin") // MySQL before 8.0.17 has no collation that keeps trailing spaces
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

type origins struct {
	ask   func(ctx context.Context, source, table string) ([]SourceColumn, error)
	of    string // the source to ask; "": any source, because all have the same columns
	known map[string][]SourceColumn

	sample func(ctx context.Context, source string, v *replicator.View) ([]seen.Values, error)
}

func (s *Sink) origins(source string) *origins {
	return &origins{ask: s.columns, of: source, known: map[string][]SourceColumn{}, sample: s.samples}
}

func (o *origins) samples(ctx context.Context, v *replicator.View) ([]seen.Values, error) {
	if o.sample == nil {
		return nil, nil
	}
	return o.sample(ctx, o.of, v)
}

// column returns the source column that a path names. It returns nil if the path names no column, or if o.ask is nil.
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

// confuses lists columns of the view's key, or of a counter's group, that can't distinguish all values that the
// source's columns distinguish.
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
		// The column also gets values from bodies. It must distinguish all of them.
		properties := false
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
			problems = append(problems, fmt.Sprintf("its column %s (%s %s) treats values as equal "+
				"that the source's column %s of table %s (%s) distinguishes. Run %s, and then "+
				"`replicator verify --repair %s`", columns[i].name, columns[i].declared, columns[i].collation,
				origin.Name, o.Table, theirs, alter, k.view.Name))
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

// alter returns the ALTER TABLE that makes a column distinguish all texts and, if spaces is set, trailing spaces.
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
	// MySQL before 8.0.17 has no collation that keeps trailing spaces.
	if spaces && c.typ != "char" && !keepsSpaces(collation) {
		typ = asBytes(c)
	}
	return "ALTER TABLE " + k.table + " MODIFY " + c.quoted + " " + typ + null, nil
}

// asBytes is the binary type that holds a text column's values as UTF-8.
func asBytes(c *column) string {
	if size := 0; c.typ == "varchar" {
		_, _ = fmt.Sscanf(c.declared, "varchar(%d)", &size)
		return fmt.Sprintf("varbinary(%d)", 4*size)
	}
	return strings.Replace(c.declared, "text", "blob", 1)
}
