// Package config reads the configuration file. It parses TOML strictly, and returns values that need no further checks.
//
// # Promises
//
//   - Nothing is ignored. An unknown key, a wrong type, an option that the view's kind doesn't have, or a name that
//     doesn't exist is an error. The error names the file, the line, the key, and the known word that is most similar
//     to the wrong one. All problems are reported together, in the order of the file.
//   - The result is complete: defaults are set, references are resolved, lists and tables are in the order of the file.
//   - ${NAME} and ${NAME:-default} are replaced in strings after TOML was parsed, so that a value can't become syntax.
//     The default also replaces an empty variable, as in a shell. $${ stands for ${.
//   - Each secret KEY has a variant KEY_file, which names a file with the secret; a line break at the file's end is not
//     part of it. Secrets have the type Secret, which prints as ***. No error contains a secret or a DSN.
//   - Relative paths start at the directory of the configuration file, wherever the program was started.
//
// # Names of fields
//
// In a list of fields, a field's name is the last part of its path: "email" and "profile.email" are both email,
// "tags[]" is tags, "$name" is name. A table of fields gives the names: { city = "address.city" }. An expression has no
// name, so it needs a table. The amount of a counter is the last of the view's fields. A MySQL counter without sum
// counts cells in the column cnt; sum = { total = "=1" } counts them in the column total.
//
// tree.go parses the file into an ordered tree, section.go reads its sections key by key, and view.go checks the result
// as a whole. A section's known keys are the keys that the code has read, so no list of known keys is needed.
//
// Each sink's package defines a SinkType (sinktype.go), which reads the keys of that type of sink.
package config
