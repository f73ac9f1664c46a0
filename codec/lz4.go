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

// lz4Frame begins LZ4's frame format.
const lz4Frame = "\x04\x22\x4d\x18"

// newLZ4 reads LZ4: the frame format, or a block behind its decompressed size (4 bytes, little end first), as Python's
// lz4.block writes it. A bare block, which says nothing of its size, can't be told from other bytes and is not read.
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
		// LZ4 can't compress better than 255 to 1, so a size that lies can't ask for memory, and what is no LZ4 at all
		// is not called too large. The library's assembly must not be given an empty space: it writes to address 0.
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

var errLZ4 = errors.New("the body is neither an LZ4 frame nor a block behind its size")
