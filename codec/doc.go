// Package codec decodes the bodies of cells: a format ("json") behind any number of compressions, outermost first
// ("zlib+json").
//
// # Promises
//
//   - Exact: integers that fit are int64, those above the largest int64 that fit are uint64, and every other number is a
//     replicator.Number with the digits that the body has (1.50, 1.0 and 1e400 stay what they are). Text is valid UTF-8 or the
//     body is an error: nothing is ever replaced by U+FFFD.
//   - Strict: a body is decoded whole or not at all. Members that nobody asked for are skipped, not trusted: they are held
//     to the same syntax.
//   - Bounded: nesting (MaxDepth) and the size after decompression (MaxSize) have limits, so no body can exhaust memory.
//   - Discreet: errors name a place and a reason, never what the body holds.
//
// # Values
//
// A decoded value is one of nil, bool, int64, uint64 (only above the largest int64), replicator.Number, float64 (only from
// formats that have binary floats), string, []byte (only from formats that tell bytes from text), []any and map[string]any.
// Values own their memory: a body may be reused as soon as it is decoded. Where an object has a name twice the last one
// counts, as in MySQL and in every common parser.
//
// # Use
//
// A Codec is made once for a table (New). Codec.Decoder compiles the names that views want into a Decoder, whose Decode
// allocates nothing but the wanted values. Both are safe for concurrent use. A decode error is the row's fault and final: the
// same bytes fail in the same way again.
package codec
