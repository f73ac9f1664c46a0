package replicator

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// What one cell of a table is, and what its versions are, the configuration alone doesn't say: the types and collations
// of the key columns are the source's, and where its unique keys leave a cell one row, the place in the log is the
// version, whatever the version column says. Under another rule a view's states and entries mean nothing. So it is part
// of the view's definition, and kept in its fingerprint: "<the file's part>.<its tables' part>". A fingerprint without
// the second part, as the file alone gives it, agrees with any.

// NamesGiven separates that part of an Identity which matters only to views of all columns: it begins with this.
const NamesGiven = "\n"

// ErrRedefined: what one cell or one version of a table is has changed at the source.
var ErrRedefined = errors.New("what it reads is something else since it was filled")

// ErrOtherKeys: two tables have keys that are never the same.
var ErrOtherKeys = errors.New("one key of a table is not the same key of the other")

// identityBytes is how long a table's part of a fingerprint is: a byte for the versions, and a hash of all.
const identityBytes = 9

// SameDefinition reports whether two fingerprints are of one definition.
func SameDefinition(a, b string) bool {
	definition, on, known := strings.Cut(a, ".")
	other, otherOn, otherKnown := strings.Cut(b, ".")
	return definition == other && (!known || !otherKnown || on == otherOn)
}

// InFile is the file's part of a fingerprint: that of a view for all of its sources, whose tables may differ.
func InFile(fingerprint string) string {
	definition, _, _ := strings.Cut(fingerprint, ".")
	return definition
}

// DefinedOn is the fingerprint of a view with what its tables are; without, where one of them is not known.
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

// Redefined says what of a view's definition is another than when it was filled: was and now are its fingerprints. The
// error is nil where they are the same; it wraps ErrRedefined where it is a table that changed.
func Redefined(v *View, was, now string) error {
	if SameDefinition(was, now) {
		return nil
	}
	wayOut := fmt.Sprintf("`replicator rebuild %s` fills it again, on_change = \"rebuild\" does so automatically, or restore ",
		v.ShownAs())
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
		return OfView(Fatal(fmt.Errorf("view %s: %w: in table %s %s; %sthe table", v.ShownAs(), ErrRedefined, table,
			altered(old, is), wayOut)), v.Name)
	}
	return OfView(Fatal(fmt.Errorf("view %s: its definition changed since it was filled; %sthe definition",
		v.ShownAs(), wayOut)), v.Name)
}

// RedefinedTable is the error of a Reader that meets an ALTER after which a table has another Identity; nil if it has
// the same, or none.
func RedefinedTable(table, was, now string) error {
	if was == now || was == "" || now == "" { // without one of its columns it can't be read, which is said elsewhere
		return nil
	}
	return OfTable(table,
		Fatal(fmt.Errorf("%w: in table %s %s; `replicator rebuild VIEW…` fills the views that read it again, on_change = \"rebuild\" does so "+
			"automatically, or restore the table", ErrRedefined, table, altered(was, now))))
}

// altered says what an ALTER did that makes one Identity another.
func altered(was, now string) string {
	if was[0] != now[0] {
		return "a unique key on its cells was added or dropped, or its version column has another type: versions are other numbers"
	}
	return "a column that makes its cells has another type or collation: keys are others"
}
