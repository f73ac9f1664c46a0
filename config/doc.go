// Package config reads the configuration file: strict TOML, into values that the rest of the program uses unchanged.
//
// # Promises
//
//   - Nothing is ignored. An unknown key, a wrong type, an option that the view's kind doesn't have, or a name that
//     doesn't exist is an error with file, line and key, and the nearest word that would have been right. All problems
//     are reported together, in the order of the file.
//   - The result is complete: defaults are set, references resolved, lists and tables in the order of the file.
//   - ${NAME} and ${NAME:-default} are replaced in strings after TOML was parsed, so that a value can't become syntax.
//     The default also replaces an empty variable, as in a shell; $${ is a plain ${.
//   - Each secret KEY has a variant KEY_file, which names a file with the secret; a line break at the file's end is not
//     part of it. Secrets have the type Secret, which prints as ***. No error contains one, nor a DSN.
//   - Relative paths start at the directory of the configuration file, wherever the program was started.
//
// # Names of fields
//
// In a list, the target's name is the last part of the path: "email" and "profile.email" are both email, "tags[]" is
// tags, "$name" is name. In a table the names are given: { city = "address.city" }. An expression has no name, so it
// needs a table. A counter's amount is the last of the view's fields; a MySQL counter without sum counts cells in the
// column cnt, and sum = { total = "=1" } counts them in another.
//
// The file is parsed into an ordered tree (tree.go), its sections are read key by key (section.go), and the result is
// checked as a whole (view.go). The keys that a section was asked for are its known keys: there is no second list.
//
// Keys of one type of sink are read by that sink's package, by its SinkType (sinktype.go).
package config
