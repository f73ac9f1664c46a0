package service

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"replicator"
	"replicator/codec"
)

// bodies decodes rows for display. It maps the names of tables that have bodies to their codecs.
type bodies map[string]*codec.Codec

func newBodies(tables []replicator.Table) (bodies, error) {
	b := bodies{}
	for _, t := range tables {
		if t.Body == "" {
			continue
		}
		c, err := codec.New(t.Codec)
		if err != nil {
			return nil, InvalidError{err}
		}
		b[t.Name] = c
	}
	return b, nil
}

// show adds the row's decoded body or its columns to line. If the body can't be decoded, show adds the raw body and the
// reason instead.
func (b bodies) show(line map[string]any, row *replicator.Row) {
	c := b[row.Cell.Table]
	if c == nil {
		columns := map[string]any{}
		for i, name := range row.Names {
			columns[name] = row.Columns[i]
		}
		line["body"] = replicator.ObjectOf(columns)
		return
	}
	if row.Body == nil {
		line["body"] = nil
		return
	}
	text := row.Body
	var err error
	if row.Text != nil {
		text, err = row.Text(row.Body)
	}
	var body replicator.Object
	if err == nil {
		body, err = c.Document(text)
	}
	if err != nil {
		line["error"], line["raw"] = err.Error(), base64.StdEncoding.EncodeToString(row.Body)
		return
	}
	line["body"] = body
}

// row returns a row's decoded body, or its columns, as JSON. If the body can't be decoded, it returns an object with
// the raw body and the reason.
func (b bodies) row(row *replicator.Row) json.RawMessage {
	shown := map[string]any{}
	if b.show(shown, row); len(shown) == 1 {
		return replicator.AppendJSON(nil, shown["body"])
	}
	return replicator.AppendJSON(nil, replicator.ObjectOf(shown))
}

// entry returns a view's entry as an object with the entry's fields, key and member. If the entry has a whole row, its
// columns or decoded body are included.
func (b bodies) entry(view *replicator.View, e replicator.Entry) replicator.Object {
	members := map[string]any{}
	if e.Row != nil {
		b.show(members, e.Row)
	}
	for i, f := range view.Fields {
		if i < len(e.Fields) && e.Fields[i] != nil {
			members[f.Name] = e.Fields[i]
		}
	}
	for name, text := range map[string]string{"key": e.Key, "member": e.Member} {
		for members[name] != nil || slices.ContainsFunc(view.Fields, func(f replicator.Field) bool { return f.Name == name }) {
			name = "$" + name // a field already has this name
		}
		if text != "" {
			members[name] = text
		}
	}
	return replicator.ObjectOf(members)
}
