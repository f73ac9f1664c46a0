package replicator

// Formats returns the names of the formats of bodies, the default first. A codec's name ends in one (see package
// codec).
func Formats() []string { return []string{"json", "msgpack", "pickle", "cbor"} }

// Compressions returns the names of the compressions of bodies. Any number of them may come before a codec's format, as
// in "zlib+json".
func Compressions() []string { return []string{"zlib", "gzip", "zstd", "lz4", "snappy"} }
