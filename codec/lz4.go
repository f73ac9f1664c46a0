package codec

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/pierrec/lz4/v4"
)

type lz4Reader struct{ *lz4.Reader }

func (r *lz4Reader) reset(body io.Reader) error {
	r.Reset(body)
	return nil
}

const lz4Frame = "\x04\x22\x4d\x18"

// newLZ4 returns a layer for LZ4: either the frame format, or a block after its decompressed size (4 bytes,
// little-endian), as Python's lz4.block writes it. A bare block is refused, because it has no size and looks like any
// other bytes.
func newLZ4() layer {
	framed := streamLayer("lz4", func() inflater { return &lz4Reader{lz4.NewReader(nil)} })
	return func(dst, body []byte) ([]byte, error) {
		if len(body) < 4 {
			return dst, inflateError("lz4", io.ErrUnexpectedEOF)
		}
		if string(body[:4]) == lz4Frame {
			return framed(dst, body)
		}
		n := binary.LittleEndian.Uint32(body)
		// LZ4 expands data at most 255 times, so a larger size is false, and must not make us allocate memory. A size of 0 is
		// refused because the library's assembly would write to address 0.
		if n == 0 || uint64(n) > 255*uint64(len(body)) {
			return dst, inflateError("lz4", errLZ4)
		}
		if n > MaxSize {
			return dst, inflateError("lz4", errTooLarge)
		}
		out := slices.Grow(dst, int(n))[:int(n)]
		if got, err := lz4.UncompressBlock(body[4:], out); err != nil || got != int(n) {
			return dst, inflateError("lz4", errLZ4)
		}
		return out, nil
	}
}

var errLZ4 = errors.New("the body is neither an LZ4 frame nor a block that starts with its size")
