package view

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/shopspring/decimal"

	"replicator"
)

// toExpr converts a value to the types that the expr library computes with: int, float64, exact, string, lists and
// maps. Bytes become hexadecimal digits, as in templates. Lists and maps are copied.
func toExpr(v any) (any, error) {
	switch v := v.(type) {
	case int64:
		return int(v), nil
	case uint64:
		return exactly(decimal.NewFromUint64(v)), nil
	case replicator.Number:
		return numberToExpr(v)
	case []byte:
		return hex.EncodeToString(v), nil
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			var err error
			if list[i], err = toExpr(e); err != nil {
				return nil, err
			}
		}
		return list, nil
	case replicator.Object:
		m := make(map[string]any, len(v))
		for _, e := range v {
			var err error
			if m[e.Name], err = toExpr(e.Value); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return v, nil
}

// dateForm is the text form of a time from an expression. MySQL and Elasticsearch both read it as the same UTC time.
const dateForm = "2006-01-02T15:04:05.999999"

// fromExpr converts an expression's result to the types that views hold.
func fromExpr(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, int64, []byte:
		return v, nil
	case int:
		return int64(v), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("the result is not a finite number")
		}
		return v, nil
	case exact:
		return replicator.Number(v.String()), nil
	case string:
		if !utf8.ValidString(v) {
			return nil, errors.New("the result is not valid UTF-8. A slice counts bytes, so it may cut a character " +
				"in two")
		}
		return v, nil
	case time.Time:
		return v.UTC().Format(dateForm), nil
	case time.Duration:
		return v.String(), nil
	}
	return fromReflected(reflect.ValueOf(v))
}

// fromReflected converts lists and maps of any Go type, because functions of expr also return types such as []string or
// map[any][]any.
func fromReflected(v reflect.Value) (any, error) {
	var err error
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		list := make([]any, v.Len())
		for i := range list {
			if list[i], err = fromExpr(v.Index(i).Interface()); err != nil {
				return nil, err
			}
		}
		return list, nil
	case reflect.Map:
		m := make(map[string]any, v.Len())
		for entries := v.MapRange(); entries.Next(); {
			key, err := fromExpr(entries.Key().Interface())
			if err != nil {
				return nil, err
			}
			if m[replicator.FormatValue(key)], err = fromExpr(entries.Value().Interface()); err != nil {
				return nil, err
			}
		}
		return replicator.ObjectOf(m), nil
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return v.Int(), nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return int64(v.Uint()), nil
	case reflect.Float32:
		return v.Float(), nil
	}
	return nil, fmt.Errorf("the result is a %s, which no view can hold", v.Type())
}
