package canal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"replicator/canal/binlog"
)

// layout has the names and types of a table's columns at one log position. Decoding rows needs them, and by default the
// binlog lacks the names. A layout is never modified.
type layout struct {
	Charset string         `json:"charset,omitempty"` // default character set for added text columns
	Columns []layoutColumn `json:"columns"`

	// Members is set instead of columns if the table is a pattern: the IDs of the tables that the pattern matched.
	Members []string `json:"members,omitempty"`
}

type layoutColumn struct {
	Name    string `json:"name"`
	Type    string `json:"type"`              // as columnType.String returns it
	Charset string `json:"charset,omitempty"` // only for text columns
}

// unknownCharset is the character set of a text column that was added while the table's default character set was
// unknown. Rows with the column can be read only if the log names its character set.
const unknownCharset = "?"

func (s *schema) layout() *layout {
	l := &layout{Charset: s.charset}
	for _, c := range s.columns {
		of := layoutColumn{Name: c.Name, Type: c.fullType}
		if t, ok := declaredType(c.fullType); ok {
			of.Type = t.String()
			if t.isText() {
				of.Charset = charsetName(c.Charset)
			}
		}
		l.Columns = append(l.Columns, of)
	}
	return l
}

func (l *layout) text() string {
	text, err := json.Marshal(l)
	if err != nil { // can't fail: a layout has only strings
		panic(err)
	}
	return string(text)
}

func parseLayout(text string) (*layout, error) {
	l := &layout{}
	if err := json.Unmarshal([]byte(text), l); err != nil {
		return nil, fmt.Errorf("the stored definition of a table's columns is damaged: %w", err)
	}
	return l, nil
}

// digest returns a hash that identifies the layout; "" for an unknown (nil) layout.
func (l *layout) digest() string {
	if l == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(l.text()))
	return hex.EncodeToString(sum[:8])
}

// same reports whether rows are decoded in the same way with two layouts.
func (l *layout) same(other *layout) bool {
	if l == nil || other == nil {
		return l == other
	}
	return slices.EqualFunc(l.Columns, other.Columns, func(a, b layoutColumn) bool {
		return strings.EqualFold(a.Name, b.Name) && a.Type == b.Type &&
			(a.Charset == b.Charset || a.Charset == unknownCharset || b.Charset == unknownCharset)
	})
}

func (l *layout) find(name string) int {
	return slices.IndexFunc(l.Columns, func(c layoutColumn) bool { return strings.EqualFold(c.Name, name) })
}

func (l *layout) declared(i int) *declaredColumn {
	c := l.Columns[i]
	d := &declaredColumn{fullType: c.Type}
	d.Name, d.Charset = c.Name, c.Charset
	if t, ok := declaredType(c.Type); ok {
		d.dataType = t.name
	}
	d.complete()
	return d
}

// unreadable is the reason why a table's known columns can't decode a row.
type unreadable struct {
	why  string
	mild bool // a column's type fits; only its length, sign or character set seems to differ, and `fits` may be wrong
}

func (e unreadable) Error() string { return e.why }

// fits returns an unreadable error if rows with a table map (the event that describes a row event's columns) can't have
// the layout. It compares everything in the map: the number of columns, their types and lengths, and their signs and
// character sets if the server writes these.
func (l *layout) fits(m *binlog.TableMap, sets binlog.Charsets) error {
	if len(m.Types) != len(l.Columns) {
		return unreadable{why: fmt.Sprintf("the row has %d columns, the table has %d", len(m.Types), len(l.Columns))}
	}
	for i, c := range l.Columns {
		t, ok := declaredType(c.Type)
		if !ok {
			continue // an unknown type can't be compared
		}
		charset := c.Charset
		if charset == unknownCharset {
			if _, said := m.Charset(i, sets); !said {
				return unreadable{why: fmt.Sprintf("the character set of column %s is unknown", c.Name)}
			}
			charset = ""
		}
		types, known := binlogTypes[t.name]
		other := known && !slices.Contains(types, m.RealType(i))
		if other || !t.fits(m, i, charset, sets) {
			return unreadable{fmt.Sprintf("column %d of the row has another type than %s", i+1, c.Name), !other}
		}
	}
	return nil
}
