package service

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"replicator"
)

// parseKey reads a key as listings show it, by the types of the table's key columns.
func parseKey(ctx context.Context, o *inspection, table, text string) (replicator.Key, error) {
	infos, err := o.source.Tables(ctx)
	if err != nil {
		return "", err
	}
	types := map[string]string{}
	var names []string
	for i, t := range o.tables {
		if t.Name == table {
			names = t.Key
			for _, c := range infos[i].Columns {
				types[c.Name] = strings.ToLower(c.Type)
			}
		}
	}
	parts := []string{text}
	if len(names) > 1 {
		parts = strings.SplitN(text, ":", len(names))
	}
	if len(parts) != len(names) {
		err := fmt.Errorf("the key of table %s has %d parts: %s", table, len(names), strings.Join(names, ":"))
		return "", InvalidError{err}
	}
	values := make([]any, len(names))
	for i, name := range names {
		if i < len(names)-1 {
			parts[i] = replicator.UnescapePart(parts[i])
		}
		if values[i], err = keyValue(types[name], parts[i]); err != nil {
			return "", InvalidError{fmt.Errorf("key column %s: %w", name, err)}
		}
	}
	return replicator.MakeKey(values...)
}

// keyValue reads one part of a key.
func keyValue(typ, text string) (any, error) {
	integers := []string{"tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year"}
	switch {
	case slices.ContainsFunc(integers, func(kind string) bool { return strings.HasPrefix(typ, kind) }):
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not an integer", text)
		}
		return n, nil
	case strings.Contains(typ, "binary"), strings.Contains(typ, "blob"):
		b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		if err != nil {
			return nil, fmt.Errorf("%q is neither hexadecimal digits nor a UUID", text)
		}
		return b, nil
	}
	return text, nil
}
