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
	// MaxDepth is how deep a body may nest; the body itself is the first level. MySQL's own limit for JSON is 100.
	MaxDepth = jsonscan.MaxDepth

	// MaxSize is how large a body may become by decompression.
	MaxSize = 64 << 20

	// MaxValues is how many values of a body are made: those of the wanted members, and of a pickle all. A list and an
	// object count as one value more than they hold. None takes more than 64 bytes beside the bytes of its text, so a
	// body's values take at most 64 MiB and what its texts do.
	MaxValues = 1_000_000
)

var errMany = fmt.Errorf("views need more than %d values of the body, which take too much memory: write smaller bodies, "+
	"or take the fields that hold so much out of the views", MaxValues)

// Codec decodes the bodies of one table.
type Codec struct {
	name   string
	layers []layer // outermost first
	format format
	spaces sync.Pool // of *space, for decompression
}

// format is what stands inside all compression. Implementations keep no reference to body, whose memory is used again;
// but JSON that nothing compresses is the row's own memory, and its texts are parts of it.
type format interface {
	// members stores the values of the wanted top-level names, which are all nil before.
	members(body []byte, want names, values []any) error
	document(body []byte) (replicator.Object, error)
}

// layer is one compression around a format. It appends what body holds to dst, or fails as soon as that exceeds
// MaxSize.
type layer func(dst, body []byte) ([]byte, error)

// Formats are the names of the formats that New knows.
func Formats() []string { return []string{"json", "msgpack", "pickle", "cbor"} }

// Compressions are the names of the compressions that New knows.
func Compressions() []string { return []string{"zlib", "gzip", "zstd", "lz4", "snappy"} }

// New returns the codec that a configuration names: compressions from the outermost on, then the format ("json",
// "zlib+json").
func New(name string) (*Codec, error) {
	parts := strings.Split(name, "+")
	c := &Codec{name: name}
	for i, part := range parts {
		if i == len(parts)-1 {
			if c.format = formatByName(part); c.format == nil {
				return nil, fmt.Errorf("codec %q: %q is not a format; use one of %s, last", name, part,
					strings.Join(Formats(), ", "))
			}
			break
		}
		l := layerByName(part)
		if l == nil {
			return nil, fmt.Errorf("codec %q: %q is not a compression; use any of %s, before the format", name, part,
				strings.Join(Compressions(), ", "))
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

// String is the codec's name in the configuration.
func (c *Codec) String() string { return c.name }

// Decoder compiles names of top-level members. A name may stand in the list only once.
func (c *Codec) Decoder(names []string) *Decoder {
	return &Decoder{codec: c, want: makeNames(names)}
}

// Document decodes all of a body. Nobody may write to that any more: see Decoder.Decode.
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

// unpack takes the compressions off and gives decode what is inside, which must keep no reference to it.
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

// unpackInto is unpack with the memory for it.
func (c *Codec) unpackInto(space *space, body []byte, decode func([]byte) error) error {
	for i, l := range c.layers {
		dst := &space[i%2] // the other one holds what the layer reads
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

// maxKept is how much memory a decompression may leave behind for the next: one huge body must not cost memory for
// ever.
const maxKept = 1 << 20

// Decoder decodes a few members of a table's bodies.
type Decoder struct {
	codec *Codec
	want  names
}

// Decode stores the values of the decoder's names in values, in their order: nil where a member is missing or null.
// After an error values hold nothing of use. values must be as long as the names are many. Texts among them may be
// parts of the body, which nobody may write to any more.
func (d *Decoder) Decode(body []byte, values []any) error {
	clear(values)
	if len(d.codec.layers) == 0 && len(body) > 0 { // the common case, without a closure
		return d.codec.format.members(body, d.want, values)
	}
	return d.codec.unpack(body, func(body []byte) error {
		return d.codec.format.members(body, d.want, values)
	})
}

// names finds the place of a member's name. A few are compared one by one, which is quicker than a map for names that
// mostly differ in length.
type names struct {
	list  []string
	index map[string]int // nil for a few
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

// find returns the place of name, -1 if it is not wanted.
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
