// Package codec decodes the bodies of cells: a format (json, msgpack, pickle, cbor) behind any number of compressions
// (zlib, gzip, zstd, lz4, snappy), outermost first: "json", "zlib+pickle".
//
// # Promises
//
//   - Exact: integers that fit are int64, those above the largest int64 that fit are uint64, and every other number is
//     a replicator.Number with the digits that the body has (1.50, 1.0 and 1e400 stay what they are). Text is valid
//     UTF-8 or the body is an error: nothing is ever replaced by U+FFFD.
//   - Strict: a body is decoded whole or not at all. Members that nobody asked for are skipped, not trusted: they are
//     held to the same syntax.
//   - Bounded: nesting (MaxDepth), the size after decompression (MaxSize) and the values that are made (MaxValues) have
//     limits, so no body can exhaust memory. A value is charged before it is made, and a member that nobody asked for is
//     not made at all.
//   - Discreet: errors name a place and a reason, never what the body holds.
//
// # Values
//
// What no view can hold (a number that is not finite, an object of a class) is a replicator.Unread in its place: it
// spoils nothing but the views that use it. A decoded value is that or one of nil, bool, int64, uint64 (only above the
// largest int64), replicator.Number, float64 (only from formats that have binary floats), string, []byte (only from
// formats that tell bytes from text), []any and replicator.Object. Values own their memory: a body may be reused as
// soon as it is decoded. Where an object has a name twice the last one counts, as in MySQL and in every common parser;
// names that are integers (not in JSON) are their decimal digits.
//
// Python 2's str, Python 3's bytes and MessagePack's str may hold text or bytes: what is valid UTF-8 (in pickles also:
// without control characters) is a string, everything else []byte. Pickles can't run anything here: of Python's classes
// those for plain data are known (pyObject.value), and any other's object is Unread.
//
// # Use
//
// A Codec is made once for a table (New). Codec.Decoder compiles the names that views want into a Decoder, whose Decode
// allocates nothing but the wanted values. A pickle is a program, and is run whole. Both are safe for concurrent use. A
// decode error is the row's fault and final: the same bytes fail in the same way again.
package codec
