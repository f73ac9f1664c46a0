// Package view compiles the definition of a view into a function. The function computes from a cell's newest row what
// the cell contributes to the view.
//
// # What a definition may say
//
// A path leads to a property of the body: address.city, tags[] (every element), lines[0].sku. A name with special
// characters is written in double quotes ("a.b".c). $name is a column of the row. A path can continue into a column
// that holds JSON ($meta.city). In a table without a body every name is a column. A value is missing if it is null, or
// if the path finds nothing at some step.
//
// If the view has a join named customer, customer.name leads into the joined row of the other table, as if that row
// were an object in this one, and customer.$name is a column there. The name of a join with many rows is a list of
// objects, and works like any other list.
//
// A text that starts with = is an expression (https://expr-lang.org), and so is the setting `where`. In an expression,
// a name is a property, $name is a column, and $env["odd name"] is a property whose name is not an identifier. If a
// property is missing, the result is missing, and `where` counts as false. An expression can handle a missing property:
// x ?? y, x?.y, x == nil, x != nil. Numbers that are not ints are float64, unless that would lose digits. Bytes become
// hexadecimal digits. But if the argument of sha256, md5, crc32, hex, unhex, base64 or uuid is a path, the function
// gets the bytes themselves. An expression depends only on the row. So there is no now(), dates are in UTC, and keys()
// and values() return lists in the order of the names.
//
// A template makes a key: user:{row_key}. {path:uuid}, {path:hex} and {path:base64} show bytes, or the bytes of a UUID
// that is stored as text. The name of a key column means that column. Different values make different keys. So a
// template must have a delimiter between two values: a character other than %, 0 to 9 and A to F. In every value but
// the last, % and the delimiter after the value are percent-encoded. {{ and }} are literal braces.
//
// # Entries
//
// Row, hash, json and document views have one entry per cell. A missing field is nil, and a path with [] gives a list
// of everything that it finds. Index, counter and ranking views have one entry for each combination of the elements
// that [] finds; equal entries count once. Fields of one list stay together (items[].sku with items[].qty), different
// lists are combined. An expression that returns a list gives an entry for each element. If a field or a part of a key
// is missing, there is no entry. Lists and objects can't be indexed.
//
// # Failure
//
// Compile refuses a definition that can't work, and names the view, the field and what to do. Some errors depend on the
// row, such as a body that can't be decoded, or a text where an expression needs a number. They become Value.Err of the
// views that they concern: a bad body doesn't affect a view that uses no property of the body, and a bad joined row
// doesn't affect a view that doesn't use it. Error texts never contain values of the row.
//
// An Evaluator has no state except pooled memory. It always gives the same entries for the same row. Several goroutines
// may use it.
package view
