package mysql

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"replicator"
)

// json converts any value to the text of a JSON document, numbers with all their digits. Bytes, which JSON has no form
// for, are their hexadecimal digits, as in every sink.
func (c *column) json(v any) (any, error) {
	if raw, ok := v.(replicator.RawJSON); ok {
		if !json.Valid(raw) {
			return nil, c.misfit("a text that is not valid JSON")
		}
		return string(raw), nil
	}
	if !c.textual && !keepsNumbers(v) {
		return nil, c.misfit("a number with more digits than the server keeps in JSON")
	}
	b, ok := appendJSON(nil, v, 0)
	if !ok {
		return nil, c.wrong(v)
	}
	if c.bytes > 0 && int64(len(b)) > c.bytes {
		return nil, c.misfit("the document's size")
	}
	return string(b), nil
}

// keepsNumbers reports whether MySQL, which keeps numbers in JSON as integers of 64 bits or as doubles, would change
// none.
func keepsNumbers(v any) bool {
	switch v := v.(type) {
	case replicator.Number:
		_, err := (&column{typ: "double"}).float(v)
		return err == nil
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !keepsNumbers(e) })
	case map[string]any:
		for _, e := range v {
			if !keepsNumbers(e) {
				return false
			}
		}
	}
	return true
}

// maxDepth is how deeply documents may be nested in MySQL.
const maxDepth = 100

func appendJSON(b []byte, v any, depth int) ([]byte, bool) {
	if depth > maxDepth {
		return nil, false
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), true
	case bool:
		return strconv.AppendBool(b, v), true
	case int64:
		return strconv.AppendInt(b, v, 10), true
	case uint64:
		return strconv.AppendUint(b, v, 10), true
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, false
		}
		return strconv.AppendFloat(b, v, 'g', -1, 64), true
	case replicator.Number:
		return append(b, v...), json.Valid([]byte(v))
	case replicator.RawJSON:
		return append(b, v...), json.Valid(v)
	case string:
		return appendString(b, v)
	case []byte:
		return appendString(b, hex.EncodeToString(v))
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var ok bool
			if b, ok = appendJSON(b, e, depth+1); !ok {
				return nil, false
			}
		}
		return append(b, ']'), true
	case map[string]any:
		return appendObject(b, v, depth)
	}
	return nil, false
}

// appendObject writes members in the order of their names, so that equal objects have one form.
func appendObject(b []byte, object map[string]any, depth int) ([]byte, bool) {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		var ok bool
		if b, ok = appendString(b, name); !ok {
			return nil, false
		}
		if b, ok = appendJSON(append(b, ':'), object[name], depth+1); !ok {
			return nil, false
		}
	}
	return append(b, '}'), true
}

func appendString(b []byte, s string) ([]byte, bool) {
	if !replicator.ValidText(s) {
		return nil, false
	}
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return nil, false
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...), true
}
