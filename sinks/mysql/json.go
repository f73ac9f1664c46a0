package mysql

import (
	"encoding/json"
	"slices"

	"replicator"
)

// json converts any value to the text of a JSON document. Numbers keep all digits. Bytes become their hexadecimal
// digits, as in every sink, because JSON has no form for them.
func (c *column) json(v any) (any, error) {
	if !c.textual && !keepsNumbers(v) {
		return nil, c.misfit("a number with more digits than the server keeps in JSON")
	}
	text, err := replicator.AppendExactJSON(nil, v, maxDepth)
	if err != nil {
		return nil, c.wrong(v)
	}
	if !json.Valid(text) { // MariaDB would accept it if the column lacks the CHECK
		return nil, c.misfit("a text that is not valid JSON")
	}
	if c.bytes > 0 && int64(len(text)) > c.bytes {
		return nil, c.misfit("the document's size")
	}
	return string(text), nil
}

// keepsNumbers reports whether MySQL would keep every number exactly: it stores numbers of JSON as 64-bit integers or
// doubles.
func keepsNumbers(v any) bool {
	switch v := v.(type) {
	case replicator.Number:
		_, err := (&column{typ: "double"}).float(v)
		return err == nil
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !keepsNumbers(e) })
	case replicator.Object:
		return !slices.ContainsFunc(v, func(m replicator.Member) bool { return !keepsNumbers(m.Value) })
	}
	return true
}

// maxDepth is how deeply MySQL allows documents to be nested.
const maxDepth = 100
