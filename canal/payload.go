package canal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/klauspost/compress/zstd"

	"replicator"
	"replicator/canal/binlog"
)

var errPayload = errors.New("a compressed transaction is damaged")

// payload decodes a compressed transaction as a stream, one inner event at a time, because the whole may be a gigabyte.
func (s *stream) payload(ctx context.Context, h binlog.Header, body []byte, place scale) error {
	c := binlog.Cursor{B: body}
	var uncompressed, method uint64
	for {
		kind := c.Packed()
		if kind == replication.OTW_PAYLOAD_HEADER_END_MARK || c.Bad {
			break
		}
		v := binlog.Cursor{B: c.PackedBytes()}
		switch kind {
		case replication.OTW_PAYLOAD_COMPRESSION_TYPE_FIELD:
			method = v.Packed()
		case replication.OTW_PAYLOAD_UNCOMPRESSED_SIZE_FIELD:
			uncompressed = v.Packed()
		}
	}
	dataAt := int64(c.Off)
	data := c.Rest()
	if c.Bad {
		return errPayload
	}
	if s.silent() { // skip the payload undecoded, because it is always a whole transaction
		return s.endTransaction()
	}
	in, err := s.inflater(method, data)
	if err != nil {
		return err
	}
	if method != replication.ZSTD {
		uncompressed = uint64(len(data))
	}
	ended, err := s.innerEvents(ctx, in, compressed(place.base+dataAt, int64(len(data)), int64(uncompressed)))
	if err != nil {
		return err
	}
	if !ended {
		return fmt.Errorf("%w: its last event is missing", errPayload)
	}
	return s.committed(ctx)
}

// inflater returns a reader of the decompressed payload. It reuses the decoder, because a new one costs more than
// decoding a small transaction.
func (s *stream) inflater(method uint64, data []byte) (io.Reader, error) {
	in := bytes.NewReader(data)
	switch method {
	case replication.ZSTD:
	case replication.NONE:
		return in, nil
	default:
		return nil, replicator.Fatal(fmt.Errorf("a transaction is compressed by the unknown method %d", method))
	}
	if s.inflate == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<31),
			zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		s.inflate = d
	}
	return s.inflate, s.inflate.Reset(in)
}

func (s *stream) innerEvents(ctx context.Context, in io.Reader, place scale) (ended bool, err error) {
	at := int64(0)
	for !ended {
		var head [binlog.HeaderSize]byte
		if _, err := io.ReadFull(in, head[:]); err == io.EOF {
			return ended, nil
		} else if err != nil {
			return false, fmt.Errorf("%w: %w", errPayload, err)
		}
		h, err := binlog.ParseHeader(head[:])
		if err != nil {
			return false, err
		}
		if h.Size > 1<<30 {
			return false, errPayload
		}
		body, err := s.innerBody(in, int(h.Size)-binlog.HeaderSize)
		if err != nil {
			return false, fmt.Errorf("%w: %w", errPayload, err)
		}
		inner := place
		inner.offset = at + binlog.HeaderSize
		s.raw = 0 // 0: rows must copy what they keep, because the buffer for inner events is reused
		if ended, err = s.inner(ctx, h, body, inner); err != nil {
			return false, err
		}
		at += int64(h.Size)
	}
	if cap(s.scratch) > maxScratch {
		s.scratch = nil
	}
	return ended, nil
}

// innerBody reads the body of an event inside a transaction payload event: n bytes. The buffer grows with the data that
// arrives, so that a damaged size can't cost a gigabyte.
func (s *stream) innerBody(in io.Reader, n int) ([]byte, error) {
	s.scratch = s.scratch[:0]
	for len(s.scratch) < n {
		from := len(s.scratch)
		s.scratch = slices.Grow(s.scratch, min(n-from, maxScratch))
		s.scratch = s.scratch[:min(n, cap(s.scratch))]
		if _, err := io.ReadFull(in, s.scratch[from:]); err != nil {
			return nil, err
		}
	}
	return s.scratch, nil
}

// maxScratch limits how much memory of the inner events' buffer is kept, so that a huge row does not occupy it
// permanently.
const maxScratch = 4 << 20
