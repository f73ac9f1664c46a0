package canal

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"replicator"
)

// columnNames turns a row's value in the column with the role `column` into the name of the cell's kind (Cell.Column).
// A case-insensitive column treats 'PII' and 'pii' as equal, so both are one kind. Its name is the form that the
// configuration uses; if it uses none, the plainest form (lower case, no accents) that the server treats as equal.
type columnNames struct {
	table      *replicator.Table
	charset    string
	collation  string
	connect    func(context.Context) (*sql.Conn, error)
	configured []string

	mu    sync.Mutex
	known map[string]string
}

// newColumnNames returns nil if each value names its own kind: then the column treats only identical values as equal.
func newColumnNames(t *replicator.Table, s *schema, connect func(context.Context) (*sql.Conn, error)) *columnNames {
	if t.Column == "" {
		return nil
	}
	c := s.column(t.Column)
	if c == nil || c.tellsAll() {
		return nil
	}
	return &columnNames{table: t, charset: c.Charset, collation: c.collation, connect: connect, configured: t.Values,
		known: map[string]string{}}
}

// tellsAll reports whether the column treats only identical values as equal.
func (c *declaredColumn) tellsAll() bool {
	return c.Charset == "" || c.collation == "binary" || strings.HasSuffix(c.collation, "_0900_bin") ||
		strings.HasSuffix(c.collation, "_nopad_bin")
}

// cellName returns the name (Cell.Column) for a text that a row has in the column with the role `column`.
func (n *columnNames) cellName(ctx context.Context, text string) (string, error) {
	if n == nil {
		return text, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, ok := n.known[text]; ok {
		return name, nil
	}
	candidates := n.candidates(text)
	if len(candidates) == 0 {
		return text, nil
	}
	name, err := n.first(ctx, text, candidates)
	if err != nil {
		return "", fmt.Errorf("table %s: asking the source which values of column %s are equal: %w",
			n.table.Name, n.table.Column, err)
	}
	if len(n.known) >= maxKinds {
		clear(n.known)
	}
	n.known[text] = name
	return name, nil
}

// candidates returns the possible names for a text. If there are none, the text itself is the name, and the server need
// not be asked.
func (n *columnNames) candidates(text string) (names []string) {
	plain := plainer(text)
	for _, name := range n.configured {
		if name == text {
			return nil
		}
		if plainer(name)[0] == plain[0] {
			names = append(names, name)
		}
	}
	if plain[0] != text {
		names = append(names, plain...)
	}
	return names
}

// plainer returns simpler forms of a text, the simplest first: without accents, without case, without trailing spaces.
func plainer(text string) []string {
	trimmed := strings.TrimRight(text, " ")
	small := cases.Fold().String(trimmed)
	bare := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFKD.String(small))
	return []string{norm.NFC.String(bare), small, trimmed}
}

// first returns the first candidate that the server treats as equal to text; text itself if it treats none as equal.
func (n *columnNames) first(ctx context.Context, text string, candidates []string) (string, error) {
	var terms []string
	var args []any
	for _, c := range candidates {
		terms = append(terms, fmt.Sprintf("COALESCE(CONVERT(? USING %s) COLLATE %s = CONVERT(? USING %[1]s), FALSE)",
			n.charset, n.collation))
		args = append(args, c, text)
	}
	if len(candidates) == 0 {
		return text, nil
	}
	conn, err := n.connect(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	equal := make([]bool, len(terms))
	into := make([]any, len(terms))
	for i := range equal {
		into[i] = &equal[i]
	}
	if err := conn.QueryRowContext(ctx, "SELECT "+strings.Join(terms, ", "), args...).Scan(into...); err != nil {
		return "", classify(err)
	}
	for i, c := range candidates {
		if equal[i] {
			return c, nil
		}
	}
	return text, nil
}

// given returns, as one text, the configured kinds that would be written differently without the configuration: "PII",
// for which the plainest form is "pii". Views that read all kinds show them, too. So they are part of the table's
// identity (Source.Identities).
func (n *columnNames) given(ctx context.Context) (string, error) {
	if n == nil {
		return "", nil
	}
	given := ""
	for _, name := range n.configured {
		if plainer(name)[0] == name {
			continue
		}
		plain, err := n.first(ctx, name, plainer(name))
		if err != nil {
			return "", err
		}
		if plain != name {
			given += replicator.NamesGiven + name
		}
	}
	return given, nil
}

// check fails if two views are made from values that the column treats as equal: a row would feed only one of the two
// views.
func (n *columnNames) check(ctx context.Context) error {
	if n == nil {
		return nil
	}
	for i, name := range n.configured {
		var alike []string
		for _, other := range n.configured[:i] {
			if plainer(other)[0] == plainer(name)[0] {
				alike = append(alike, other)
			}
		}
		other, err := n.first(ctx, name, alike)
		if err != nil {
			return err
		}
		if other != name {
			return replicator.OfTable(n.table.Name,
				replicator.Fatal(fmt.Errorf("table %[1]s: views have \"%[1]s.%[2]s\" and \"%[1]s.%[3]s\" in `from`, "+
					"but column %[4]s (%[5]s) treats the values %[2]q and %[3]q as equal. Use one of the two in all "+
					"views", n.table.Name, other, name, n.table.Column, n.collation)))
		}
	}
	return nil
}
