// Package view compiles the definition of a view into a function. The function computes what a cell contributes to the
// view from the cell's newest row.
//
// # What a definition may say
//
// A path leads to a property: address.city, tags[] (every element), lines[0].sku. A name with special characters is
// written in double quotes ("a.b".c). $name is a column of the row; a path can continue into a column that holds JSON
// ($meta.city). In a table without a body every name is a column. A null, or a path that finds nothing at any step, is
// missing.
//
// A path that starts with the name of one of the view's joins leads into a row of another table, as if that row were an
// object in this one: customer.name. There, $ marks a column (customer.$name). The name of a join with many rows is a
// list of objects and works like any other list.
//
// A text that starts with = is an expression (https://expr-lang.org), and so is where. In an expression names are
// properties, $name is a column, and $env["odd name"] is a property whose name is not an identifier. If a property is
// missing, the result is missing, and a where is false. An expression can handle the absence: x ?? y, x?.y, x == nil,
// x != nil. Numbers that are not ints are float64, unless that would lose digits. Bytes are hexadecimal digits, but the
// functions sha256, md5, crc32, hex, unhex, base64 and uuid get the bytes themselves if their argument is a path. An
// expression depends only on the row: there is no now, dates are UTC, and keys and values are sorted.
//
// A template makes a key: user:{row_key}. {path:uuid}, {path:hex} and {path:base64} show bytes, or the bytes that a
// UUID's text stands for. The name of a key column means that column. Different values make different keys. So a
// template needs text between two values, and in every value but the last, the first character of that text and % are
// percent-encoded. {{ and }} are literal braces.
//
// # Entries
//
// Row, hash, json and document views have one entry per cell. Their missing fields are nil, and [] gives the list of
// everything it finds. Index, counter and ranking views have one entry for each combination of what their [] find;
// equal entries count once. Fields of one list stay together (items[].sku with items[].qty), and different lists are
// combined. An expression that returns a list stands for each element. If a field or a part of a key is missing, there
// is no entry. Lists and objects can't be indexed.
//
// # Failure
//
// Compile refuses a definition that can't work, and names the view, the field and what to do. Some errors depend on the
// row, such as a body that can't be decoded or a text where an expression wants a number. They become Value.Err of the
// views that they concern: a bad body doesn't affect a view that uses no property of it. The same is true of a joined
// row. Reasons never contain values of the row.
//
// An Evaluator has no state except pooled memory. It always gives the same entries for the same row and is safe for
// concurrent use.
package view
