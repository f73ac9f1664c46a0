// Package config reads the configuration file: TOML, strict, into values that the rest of the program uses as they are.
//
// # Promises
//
//   - Nothing is ignored: an unknown key, a wrong type, an option that does not belong to the view's kind, a name that
//     nothing has is an error with file, line and key, and the nearest word that would have been right. All problems
//     are reported together, in the order of the file.
//   - What comes back is complete: defaults are filled in, references resolved, lists and tables in the order of the
//     file.
//   - ${NAME} and ${NAME:-default} are replaced in strings after TOML was parsed, so that a value can't become syntax.
//     The default also stands for an empty variable, as in a shell; $${ is a plain ${.
//   - Beside each secret KEY stands KEY_file, which names a file that holds it; a line break at its end is not part of
//     it. Secrets have the type Secret, which shows as *** wherever it is printed. No error holds one, nor a DSN.
//   - Relative paths are meant from the directory of the configuration file, wherever the program was started.
//
// # Names of fields
//
// In a list, the target's name is the last part of the path: "email" and "profile.email" are both email, "tags[]" is
// tags, "$name" is name. In a table the names are given: { city = "address.city" }. An expression has no name of its
// own, so it needs a table. A counter's amount is the last of the view's fields; a MySQL counter without sum counts
// cells in the column cnt, and sum = { total = "=1" } counts them in another.
//
// The file is parsed into an ordered tree (tree.go), sections of it are read key by key (section.go), and what was read
// is looked at as a whole (view.go). What a section was asked for is what it knows: there is no second list of keys.
//
// What belongs to one type of sink is read by that sink's package, which a SinkType leads to (sinktype.go).
package config
