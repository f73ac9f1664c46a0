package codec

import "replicator"

// AppendJSON is replicator.AppendJSON, beside the codecs whose values it writes.
func AppendJSON(dst []byte, value any) []byte { return replicator.AppendJSON(dst, value) }
