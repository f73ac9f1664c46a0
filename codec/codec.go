package codec

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"replicator"
	"replicator/internal/jsonscan"
)

const (
	// MaxDepth limits the nesting of a body. The body itself is level 1. MySQL's limit for JSON is 100, so every JSON
	// column fits.
	MaxDepth = jsonscan.MaxDepth

	// MaxSize limits the size of a decompressed body, in bytes.
	MaxSize = 64 << 20

	// MaxValues limits how many values are decoded for the views that use a body. A list or an object counts as one value,
	// and so does each element. A value takes at most 64 bytes besides its text.
	MaxValues = 1_000_000
)

var errMany = fmt.Errorf("views need more than %d values of the body, which take too much memory (write "+
	"smaller bodies, or remove the largest fields from the views)", MaxValues)

// Codec decodes the bodies of one table.
type Codec struct {
	name   string
	layers []layer // the compressions, the outermost first
	format format
	spaces sync.Pool // buffers for decompression: *space
}

// format decodes a decompressed body. An implementation keeps no reference to body, because its memory is reused. The
// exception is JSON without a compression: its body is the row's own memory, and strings may be parts of it.
type format interface {
	// members stores the wanted top-level members in values, whose elements are nil at first.
	members(body []byte, want names, values []any) error
	document(body []byte) (replicator.Object, error)
}

// layer is one compression. It appends the decompressed body to dst. It fails as soon as the result exceeds MaxSize.
type layer func(dst, body []byte) ([]byte, error)

// New returns the codec with a configured name: the compressions, the outermost first, then the format, such as "json"
// or "zlib+json".
func New(name string) (*Codec, error) {
	parts := strings.Split(name, "+")
	c := &Codec{name: name}
	for i, part := range parts {
		if i == len(parts)-1 {
			if c.format = formatByName(part); c.format == nil {
				return nil, fmt.Errorf("codec %q: %q is not a format. End the codec's name with one of %s", name, part,
					strings.Join(replicator.Formats(), ", "))
			}
			break
		}
		l := layerByName(part)
		if l == nil {
			return nil, fmt.Errorf("codec %q: %q is not a compression. Use any of %s before the format", name, part,
				strings.Join(replicator.Compressions(), ", "))
		}
		c.layers = append(c.layers, l)
	}
	if _, ok := c.format.(jsonFormat); ok && len(c.layers) == 0 {
		c.format = jsonFormat{shares: true}
	}
	return c, nil
}

func formatByName(name string) format {
	switch name {
	case "json":
		return jsonFormat{}
	case "msgpack":
		return wholeFormat{name: name, decode: decodeMsgpack}
	case "cbor":
		return wholeFormat{name: name, decode: decodeCBOR}
	case "pickle":
		return wholeFormat{name: name, decode: decodePickle}
	}
	return nil
}

func layerByName(name string) layer {
	switch name {
	case "zlib":
		return newZlib()
	case "gzip":
		return newGzip()
	case "zstd":
		return newZstd()
	case "lz4":
		return newLZ4()
	case "snappy":
		return newSnappy()
	}
	return nil
}

// String returns the codec's name in the configuration.
func (c *Codec) String() string { return c.name }

// Decoder returns a Decoder for the named top-level members. A name may occur only once.
func (c *Codec) Decoder(names []string) *Decoder {
	return &Decoder{codec: c, want: makeNames(names)}
}

// Document decodes a whole body. The caller must not write to body afterwards: see Decoder.Decode.
func (c *Codec) Document(body []byte) (replicator.Object, error) {
	var doc replicator.Object
	err := c.unpack(body, func(body []byte) (err error) {
		doc, err = c.format.document(body)
		return err
	})
	return doc, err
}

var (
	errNull  = errors.New("the body is NULL")
	errEmpty = errors.New("the body is empty")
)

// unpack decompresses body and calls decode with the result, whose memory is used again afterwards.
func (c *Codec) unpack(body []byte, decode func([]byte) error) error {
	switch {
	case body == nil:
		return errNull
	case len(body) == 0:
		return errEmpty
	case len(c.layers) == 0:
		return decode(body)
	}
	small, _ := c.spaces.Get().(*space)
	if small == nil {
		small = new(space)
	}
	defer func() {
		if cap(small[0])+cap(small[1]) <= maxKept {
			c.spaces.Put(small)
		}
	}()
	err := c.unpackInto(small, body, decode)
	if !errors.Is(err, errLarge) {
		return err
	}
	in := large.get()
	defer large.put(in)
	return c.unpackInto(in, body, decode)
}

// unpackInto decompresses body with the given buffers and calls decode with the result.
func (c *Codec) unpackInto(space *space, body []byte, decode func([]byte) error) error {
	for i, l := range c.layers {
		dst := &space[i%2] // the layers write to the two buffers in turn
		var err error
		if *dst, err = l((*dst)[:0], body); err != nil {
			return err
		}
		body = *dst
	}
	if len(body) == 0 {
		return errEmpty
	}
	return decode(body)
}

// maxKept limits the bytes of buffers that are kept for later decompressions, so that one huge body doesn't cost memory
// permanently.
const maxKept = 1 << 20

// Decoder decodes the members of a table's bodies that views use.
type Decoder struct {
	codec *Codec
	want  names
}

// Decode sets `values` to the members of body whose names were passed to Codec.Decoder, in the order of the names. A
// value is nil if its member is missing or null. Strings may be parts of body, so the caller must not write to body
// afterwards.
func (d *Decoder) Decode(body []byte, values []any) error {
	clear(values)
	if len(d.codec.layers) == 0 && len(body) > 0 { // without compression, spare the closure below
		return d.codec.format.members(body, d.want, values)
	}
	return d.codec.unpack(body, func(body []byte) error {
		return d.codec.format.members(body, d.want, values)
	})
}

// names finds the index of a member's name. If there are only a few names, comparing them one by one is faster than a
// map, because most names differ in length.
type names struct {
	list  []string
	index map[string]int // the names' indexes in `list`, by name; nil if there are only a few names
}

const fewNames = 8

func makeNames(list []string) names {
	n := names{list: list}
	if len(list) > fewNames {
		n.index = make(map[string]int, len(list))
		for i, name := range list {
			n.index[name] = i
		}
	}
	return n
}

func (n names) find(name []byte) int {
	if n.index != nil {
		if i, ok := n.index[string(name)]; ok {
			return i
		}
		return -1
	}
	for i, s := range n.list {
		if s == string(name) {
			return i
		}
	}
	return -1
}
