package codec

import (
	"io"

	"github.com/klauspost/compress/s2"
)

const snappyStream = "\xff\x06\x00\x00sNaPpY"

// newSnappy returns a layer for Snappy: a block, as the compress functions of Snappy libraries write it, or the framing
// format.
func newSnappy() layer {
	framed := streamLayer("snappy",
		func() inflater { return &snappyReader{s2.NewReader(nil, s2.ReaderMaxBlockSize(64<<10))} })
	return func(dst, body []byte) ([]byte, error) {
		if len(body) >= len(snappyStream) && string(body[:len(snappyStream)]) == snappyStream {
			return framed(dst, body)
		}
		n, err := s2.DecodedLen(body)
		if err != nil {
			return dst, inflateError("snappy", err)
		}
		if n > MaxSize {
			return dst, inflateError("snappy", errTooLarge)
		}
		out, err := s2.Decode(dst[:cap(dst)], body)
		if err != nil {
			return dst, inflateError("snappy", err)
		}
		return out, nil
	}
}

type snappyReader struct{ *s2.Reader }

func (r *snappyReader) reset(body io.Reader) error {
	r.Reset(body)
	return nil
}
