// Package codec decodes bodies: columns that hold an encoded document in each row. A body has a format (json, msgpack,
// pickle, cbor) inside any number of compressions (zlib, gzip, zstd, lz4, snappy). The name of a codec lists the
// outermost first: "json", "zlib+pickle".
//
// # Promises
//
//   - Exact: an integer is an int64 if it fits, or else a uint64 if it fits. Every other number is a replicator.Number
//     with the digits of the body (1.50, 1.0 and 1e400 stay as they are). A body with invalid UTF-8 in a string is an
//     error: nothing is replaced by U+FFFD.
//   - Strict: a body is decoded completely or not at all. The syntax of members that no view uses is checked, too.
//   - Bounded: nesting (MaxDepth), the size after decompression (MaxSize) and the number of values (MaxValues) have
//     limits, so no body can exhaust memory. A value is counted before it is created. A member that no view uses is not
//     created at all.
//   - Discreet: an error contains a position and a reason, and never the content of the body.
//
// # Values
//
// A value that no view can hold (a number that is not finite, an object of a class) becomes a replicator.Unread. It
// affects only the views that use it. Every other decoded value is nil, bool, int64, uint64 (only above the largest
// int64), replicator.Number, float64 (only from formats with binary floats), string, []byte (only from formats that
// separate bytes from text), []any or replicator.Object. Values own their memory, except strings of uncompressed JSON,
// which may be parts of the body (see Decoder.Decode). If an object has a name twice, the last one counts, as in MySQL
// and in every common parser. Names that are integers (not in JSON) become decimal digits.
//
// Python 2's str, Python 3's bytes and MessagePack's str can hold text or bytes. Valid UTF-8 becomes a string, in
// pickles only if it has no control characters. Everything else becomes []byte. Pickles can't run code here: Python's
// classes for plain data are known (pyObject.value), and an object of any other class is Unread.
//
// # Use
//
// New returns a Codec for a table. Codec.Decoder takes the names of members that views use, and returns a Decoder.
// Decoder.Decode allocates only the values of these members. A pickle is a program, so Decode always runs all of it.
// Several goroutines may use a Codec or a Decoder at the same time. A decode error is permanent: the same bytes always
// fail in the same way.
package codec
