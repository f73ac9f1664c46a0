package replicator

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An identity is a text that says which rows of a table form a cell, and what a row's version is. The configuration
// alone can't say that, because the source defines the types, collations and unique keys of the columns. If a unique
// key allows only one row per cell, the log position is the version, even if there is a version column. A view's
// fingerprint is "<part of the configuration>.<part of its tables' identities>", because the view is wrong once an
// identity changes.

// NamesGiven separates the parts of a table's identity. The first part concerns all views of the table. The others are
// configured values of the column role that name cells instead of an equal, plainer value ("PII" instead of "pii").
// They concern only views of all cells (`from = "t"`, not "t.pii").
const NamesGiven = "\n"

// ErrRedefined: the definition of a table's cells or versions has changed at the source.
var ErrRedefined = errors.New("a source table changed since the view was filled")

// ErrOtherKeys: the keys of two tables can never be equal.
var ErrOtherKeys = errors.New("the keys of the two tables are of different types")

// identityBytes is how many bytes of a fingerprint each table takes: the first byte of its identity, which says what
// kind of number its versions are, and then 8 hexadecimal digits of the identity's hash.
const identityBytes = 9

// SameDefinition compares two fingerprints. The tables' part counts only if both fingerprints have it.
func SameDefinition(a, b string) bool {
	definition, on, known := strings.Cut(a, ".")
	other, otherOn, otherKnown := strings.Cut(b, ".")
	return definition == other && (!known || !otherKnown || on == otherOn)
}

// InFile returns the configuration file's part of a fingerprint. All sources of the view share this part, although
// their tables may differ.
func InFile(fingerprint string) string {
	definition, _, _ := strings.Cut(fingerprint, ".")
	return definition
}

// DefinedOn returns the view's fingerprint with the identities of its tables (see Source.Identities). If an identity is
// unknown, it returns only the configuration file's part.
func DefinedOn(v *View, identities map[string]string) string {
	fingerprint := InFile(v.Fingerprint)
	var on strings.Builder
	for _, table := range Feeding([]*View{v}) {
		identity := identities[table]
		if identity == "" {
			return fingerprint
		}
		if !slices.Contains(v.From, Feed{Table: table}) {
			identity, _, _ = strings.Cut(identity, NamesGiven)
		}
		hash := sha256.Sum256([]byte(identity))
		fmt.Fprintf(&on, "%s%x", identity[:1], hash[:identityBytes/2])
	}
	return fingerprint + "." + on.String()
}

// Redefined returns an error that says how a view's definition has changed since it was filled, or nil if it has not.
// was and now are the view's two fingerprints. The error wraps ErrRedefined if a table changed.
func Redefined(v *View, was, now string) error {
	if SameDefinition(was, now) {
		return nil
	}
	wayOut := fmt.Sprintf("Run `replicator rebuild %s` to fill the view again, set on_change = \"rebuild\" to do so "+
		"automatically, or change ", v.ShownAs())
	_, before, _ := strings.Cut(was, ".")
	_, after, _ := strings.Cut(now, ".")
	tables := Feeding([]*View{v})
	if len(before) != len(tables)*identityBytes || len(after) != len(before) {
		before = after
	}
	for i, table := range tables {
		old, is := before[min(len(before), i*identityBytes):], after[min(len(after), i*identityBytes):]
		if old == "" || old[:identityBytes] == is[:identityBytes] {
			continue
		}
		return OfView(Fatal(fmt.Errorf("view %s: %w: in table %s %s. %sthe table back", v.ShownAs(), ErrRedefined,
			table, altered(old, is), wayOut)), v.Name)
	}
	return OfView(Fatal(fmt.Errorf("view %s: its definition changed since it was filled. %sthe definition back",
		v.ShownAs(), wayOut)), v.Name)
}

// RedefinedTable returns a Reader's error after an ALTER TABLE that changed a table's Identity. It returns nil if the
// Identity is unchanged or unknown.
func RedefinedTable(table, was, now string) error {
	if was == now || was == "" || now == "" { // unknown identity: the table lacks a column, which another error reports
		return nil
	}
	return OfTable(table, Fatal(fmt.Errorf("%w: in table %s %s. Run `replicator rebuild VIEW…` to fill again the "+
		"views that read the table, set on_change = \"rebuild\" to do so automatically, or change the table back",
		ErrRedefined, table, altered(was, now))))
}

func altered(was, now string) string {
	if was[0] != now[0] {
		return "a unique key for one row per cell was added or dropped, or the version column's type changed, " +
			"so versions are different numbers"
	}
	return "a column that identifies its cells has another type or collation, so the keys are different"
}
