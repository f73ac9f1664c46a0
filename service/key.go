package service

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"replicator"
)

// parseKey parses a key in the form that listings show. It uses the types of the table's key columns.
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
			err = fmt.Errorf("key column %s: %w", name, err)
			if len(names) > 1 {
				err = fmt.Errorf("%w (the key's parts are %s; write a : as %%3A, except in the last part)", err,
					strings.Join(names, ":"))
			}
			return "", InvalidError{err}
		}
	}
	return replicator.MakeKey(values...)
}

// keyValue parses one part of a key. It refuses a value that the column can't have. Otherwise the caller would look for
// a row that can't exist, and not tell the operator that the key is wrong.
func keyValue(typ, text string) (any, error) {
	kind, size := typeAndSize(typ)
	switch kind {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year":
		return integerKey(kind, strings.Contains(typ, "unsigned"), text)
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is neither hexadecimal digits nor a UUID", text)
		case kind == "binary" && len(b) != max(size, 1):
			return nil, fmt.Errorf("%q has %d bytes, but %s needs %d (%d hexadecimal digits)", text, len(b), typ,
				max(size, 1), 2*max(size, 1))
		case kind == "varbinary" && len(b) > size:
			return nil, fmt.Errorf("%q has %d bytes, but %s allows at most %d", text, len(b), typ, size)
		}
		return b, nil
	case "date", "datetime", "timestamp", "time", "decimal":
		// Without this check, the query would fail, and the operator would get the server's error about comparing
		// values.
		if !strings.ContainsFunc(text, isDigit) || strings.Trim(text, "0123456789-+:. ") != "" {
			return nil, fmt.Errorf("%q is not a valid %s", text, kind)
		}
	case "char", "varchar":
		if n := utf8.RuneCountInString(text); n > max(size, 1) {
			return nil, fmt.Errorf("%q has %d characters, but %s allows at most %d", text, n, typ, max(size, 1))
		}
	}
	return text, nil
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// typeAndSize splits a column's type, such as varchar(9) or int unsigned. size is 0 if the type has no size.
func typeAndSize(typ string) (kind string, size int) {
	end := strings.IndexFunc(typ, func(r rune) bool { return r < 'a' || r > 'z' })
	if end < 0 {
		return typ, 0
	}
	if rest, ok := strings.CutPrefix(typ[end:], "("); ok {
		digits, _, _ := strings.Cut(rest, ")")
		size, _ = strconv.Atoi(digits) // decimal(12,2) yields 0, which no caller uses
	}
	return typ[:end], size
}

func integerKey(kind string, unsigned bool, text string) (any, error) {
	bits := map[string]int{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32}[kind] // 0 means 64 bits
	if n, err := strconv.ParseInt(text, 10, cmp.Or(bits, 64)); err == nil && !(unsigned && n < 0) {
		return n, nil
	} else if !unsigned && kind != "bit" && errors.Is(err, strconv.ErrRange) {
		return nil, fmt.Errorf("%q is out of range for %s", text, kind)
	}
	n, err := strconv.ParseUint(text, 10, cmp.Or(bits, 64))
	switch {
	case err == nil && bits == 0:
		return n, nil
	case err == nil:
		return int64(n), nil
	case errors.Is(err, strconv.ErrRange) || unsigned && strings.HasPrefix(text, "-"):
		return nil, fmt.Errorf("%q is out of range for %s", text, kind)
	}
	return nil, fmt.Errorf("%q is not an integer", text)
}
