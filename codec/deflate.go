package codec

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"sync"
)

type inflater interface {
	io.Reader
	reset(body io.Reader) error
}

type zlibReader struct {
	io.Reader
}

func (r *zlibReader) reset(body io.Reader) (err error) {
	if r.Reader == nil {
		r.Reader, err = zlib.NewReader(body)
		return err
	}
	return r.Reader.(zlib.Resetter).Reset(body, nil)
}

type gzipReader struct {
	gzip.Reader
}

func (r *gzipReader) reset(body io.Reader) error { return r.Reset(body) }

func newZlib() layer { return streamLayer("zlib", func() inflater { return &zlibReader{} }) }

func newGzip() layer { return streamLayer("gzip", func() inflater { return &gzipReader{} }) }

// streamLayer returns a function that decompresses a body with a streaming decompressor. Decompressors are large, so
// they are reused.
func streamLayer(name string, fresh func() inflater) layer {
	pool := &sync.Pool{New: func() any { return &stream{inflater: fresh()} }}
	return func(dst, body []byte) ([]byte, error) {
		s := pool.Get().(*stream)
		defer pool.Put(s)
		s.body.Reset(body)
		defer s.body.Reset(nil)
		if err := s.inflater.reset(&s.body); err != nil {
			return dst, inflateError(name, err)
		}
		dst, err := readBounded(dst, s.inflater)
		if err == nil && s.body.Len() > 0 {
			err = errors.New("something follows the end of the compressed body")
		}
		if err != nil {
			return dst, inflateError(name, err)
		}
		return dst, nil
	}
}

type stream struct {
	inflater inflater
	body     bytes.Reader
}

// readBounded appends all of r to dst, up to MaxSize. If dst is a buffer for small bodies, and the result doesn't fit
// into such a buffer, it returns errLarge.
func readBounded(dst []byte, r io.Reader) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			if cap(dst) == maxSmall {
				return dst, errLarge
			}
			dst = append(make([]byte, 0, grown(cap(dst))), dst...)
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > MaxSize:
			return dst, errTooLarge
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}

var errTooLarge = fmt.Errorf("the body is larger than %d MiB when it is decompressed", MaxSize>>20)

func inflateError(name string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the body is cut short")
	}
	return fmt.Errorf("%s: %w", name, err)
}
