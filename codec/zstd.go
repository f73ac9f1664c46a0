package codec

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// newZstd returns a layer for Zstandard frames. It doesn't support dictionaries.
func newZstd() layer {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxSize), zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic(fmt.Sprintf("making the zstd decoder: %v", err))
	}
	return func(dst, body []byte) ([]byte, error) {
		out, err := decoder.DecodeAll(body, dst)
		switch {
		case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
			err = errTooLarge
		case err == nil && len(out) > MaxSize:
			err = errTooLarge
		}
		if err != nil {
			return dst, inflateError("zstd", err)
		}
		return out, nil
	}
}
