// Package view compiles view definitions into the function that views are: from a cell's newest row to what it
// contributes.
//
// # What a definition may say
//
// A path leads to a property: address.city, tags[] (every element), lines[0].sku; names with odd characters stand in
// double quotes ("a.b".c). $name is one of the row's own columns, from which a path goes on if it holds JSON
// ($meta.city). In a table without a body every name is a column. What is not there at any step, and null, is missing.
//
// A path that begins with the name of one of the view's joins leads into a row of another table, as if the row were an
// object in this one: customer.name, where $ marks a column of it (customer.$name). The name of a join with many rows
// is a list of objects, and everything that can be said of lists can be said of it.
//
// A text that begins with = is an expression (https://expr-lang.org), and so is where. Names are properties, $name
// columns, $env["odd name"] a property that is no identifier. An expression over something missing is missing (a where
// is false) unless it says itself what to do then, anywhere: x ?? y, x?.y, x == nil, x != nil. Numbers that are no int
// are float64 in it, and bytes their hexadecimal digits. The functions sha256, md5, crc32, hex, unhex, base64 and uuid
// take the bytes themselves where a path is their argument. An expression sees nothing but the row: there is no now,
// dates are UTC, keys and values are sorted.
//
// A template makes a key: user:{row_key}. {path:uuid}, {path:hex} and {path:base64} show bytes, or what the text of a
// UUID stands for. A name that is one of the table's key columns means that column. Different values make different
// keys: between two values there must be text, and in all but the last of them the first character of that text and %
// are percent-encoded. Braces are doubled to stand for themselves.
//
// # Entries
//
// Row, hash, json and document have one entry a cell, in which missing fields are nil and [] gives the list of all it
// leads to. Index, counter and ranking have an entry for every combination of what their [] lead to, and equal ones
// once: fields of one list go together (items[].sku with items[].qty), different lists are combined. An expression that
// gives a list means each element. Nothing is entered where a field or a part of a key is missing. Lists and objects
// can't be indexed.
//
// # Failure
//
// Compile refuses what can't work, with the view, the field and what to do. What only a row can show (a body that can't
// be decoded, a text where an expression wants a number) is Value.Err of the views concerned: a view that needs nothing
// of the body does not mind a bad one, and the same is true of a joined row. Reasons never hold values of the row. An
// Evaluator has no state but pooled memory, gives the same entries for the same row always, and is safe for concurrent
// use.
package view
