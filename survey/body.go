package survey

import (
	"fmt"
	"slices"
	"strings"

	"replicator"
)

// Codec decodes bodies: documents that are encoded in a column.
type Codec struct {
	Name   string // the codec's name in a configuration: "zlib+pickle"
	Decode func(body []byte) (replicator.Object, error)
}

// bodies describes a column of encoded documents: how its sampled values are encoded.
type bodies struct {
	column  string
	codec   string              // the codec of most values; "" if none is known
	sure    bool                // the codec is certain: only this one decodes every sampled value
	reason  string              // how many of the sampled values the codec decodes, in words
	decoded []replicator.Object // the decoded body of each row; nil if the row's body did not decode
}

// decode finds the codec of a column's bodies. stages lists the codecs to try, the more likely ones first. A stage is
// tried only if the stages before it decode no body.
func decode(t *Table, column string, stages [][]Codec) bodies {
	b := bodies{column: column}
	values := t.Values[column]
	count, empty := 0, 0
	for _, v := range values {
		if len(v) > 0 {
			count++
		} else if v != nil {
			empty++
		}
	}
	if count == 0 {
		b.reason = "no body was sampled" + leftOut(t.TooLong[column], empty)
		if c := t.col(column); c.DataType == "json" { // a JSON column holds only JSON
			b.codec, b.sure = "json", t.TooLong[column] == 0
		}
		return b
	}
	var best []Codec
	most := 0
	for i, stage := range stages {
		if i > 0 && t.col(column).Text {
			break // all codecs after the first stage decompress, and a text column can't hold compressed data
		}
		for _, c := range stage {
			n := 0
			for _, v := range values {
				if len(v) == 0 {
					continue
				}
				if _, err := c.Decode(v); err == nil {
					n++
				}
			}
			if n > most {
				best, most = nil, n
			}
			if n == most && n > 0 {
				best = append(best, c)
			}
		}
		if most > 0 {
			break
		}
	}
	if most == 0 {
		b.reason = fmt.Sprintf("none of %s is an object in any codec", sampled(count)) + leftOut(t.TooLong[column], empty)
		return b
	}
	b.codec = best[0].Name
	b.sure = most == count && len(best) == 1
	b.reason = fmt.Sprintf("%d of %s decode", most, sampled(count)) + leftOut(t.TooLong[column], empty)
	if len(best) > 1 {
		var names []string
		for _, c := range best {
			names = append(names, c.Name)
		}
		b.reason += ", which could as well be " + strings.Join(names[1:], " or ")
	}
	b.decoded = make([]replicator.Object, len(values))
	for i, v := range values {
		if len(v) > 0 {
			b.decoded[i], _ = best[0].Decode(v) // a body that the chosen codec can't decode stays nil
		}
	}
	return b
}

func sampled(n int) string { return fmt.Sprintf("%d sampled bodies", n) }

func leftOut(tooLong, empty int) string {
	text := ""
	if tooLong > 0 {
		text += fmt.Sprintf("; %d longer than %d KiB were not read", tooLong, maxBody>>10)
	}
	if empty > 0 {
		text += fmt.Sprintf("; %d are empty", empty)
	}
	return text
}

// bodyNames lists common names of body columns, the more likely ones first.
var bodyNames = []string{"body", "state", "data", "payload", "document", "doc", "json", "content",
	"contents", "value", "val",
	"properties", "props", "attributes", "object", "entity", "record", "cell", "blob", "event", "bag"}

func bodyRank(name string) int {
	if i := slices.Index(bodyNames, strings.ToLower(name)); i >= 0 {
		return i
	}
	return len(bodyNames)
}

// findBody chooses the column that holds encoded documents (bodies). It returns nil if there is none. others lists
// further columns of objects.
func findBody(t *Table, keyed []string, stages [][]Codec) (found *bodies, others []string) {
	var all []bodies
	plain := 0
	for i := range t.Columns {
		c := &t.Columns[i]
		switch {
		case has(keyed, c.Name):
		case c.holdsBody() && !c.Generated:
			all = append(all, decode(t, c.Name, stages))
		case !c.temporal():
			plain++
		}
	}
	slices.SortStableFunc(all, func(a, b bodies) int {
		if sa, sb := a.likelihood(t), b.likelihood(t); sa != sb {
			return sb - sa
		}
		return bodyRank(a.column) - bodyRank(b.column)
	})
	for i := range all {
		b := &all[i]
		named := bodyRank(b.column) < len(bodyNames)
		binary := !t.col(b.column).Text
		// A text column whose values are not objects is an ordinary column. A column of objects is not the body if
		// there are many plain columns. It probably holds settings then.
		if found == nil && (b.codec != "" && (plain <= 1 || named && plain <= 4) || b.codec == "" && binary && named) {
			found = b
		} else if b.codec != "" {
			others = append(others, b.column)
		}
	}
	slices.Sort(others)
	return found, others
}

// likelihood ranks a column as the column of bodies. What counts most is that its values decode, then its name, then
// that its codec is certain, then that it is NOT NULL.
func (b *bodies) likelihood(t *Table) int {
	n := 0
	if b.codec != "" {
		n += 8
	}
	if bodyRank(b.column) < len(bodyNames) {
		n += 4
	}
	if b.sure {
		n += 2
	}
	if c := t.col(b.column); !c.Nullable {
		n++
	}
	return n
}
