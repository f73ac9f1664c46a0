package codec

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"replicator"
)

func compressed(t testing.TB, kind string, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch kind {
	case "zlib":
		w, _ = zlib.NewWriterLevel(&b, zlib.BestSpeed) // fast, because some tests compress many megabytes
	case "gzip":
		w, _ = gzip.NewWriterLevel(&b, gzip.BestSpeed)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	case "lz4":
		w = lz4.NewWriter(&b)
	case "lz4 block":
		out := make([]byte, 4+lz4.CompressBlockBound(len(body)))
		binary.LittleEndian.PutUint32(out, uint32(len(body)))
		n, err := new(lz4.Compressor).CompressBlock(body, out[4:])
		if err != nil {
			t.Fatal(err)
		}
		return out[:4+n]
	case "snappy":
		return s2.EncodeSnappy(nil, body)
	case "snappy stream":
		w = s2.NewWriter(&b, s2.WriterSnappyCompat())
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCompressionsComeOffFromTheOutside(t *testing.T) {
	body := []byte(`{"a":1}`)
	z, g := compressed(t, "zlib", body), compressed(t, "gzip", body)
	tests := []struct {
		codec string
		body  []byte
	}{
		{"zlib+json", z},
		{"gzip+json", g},
		{"gzip+json", append(bytes.Clone(g), compressed(t, "gzip", []byte(" "))...)}, // gzip allows several members
		{"gzip+zlib+json", compressed(t, "gzip", z)},
		{"zstd+json", compressed(t, "zstd", body)},
		{"lz4+json", compressed(t, "lz4", body)},
		{"lz4+json", compressed(t, "lz4 block", bytes.Repeat(body, 1))},
		{"snappy+json", compressed(t, "snappy", body)},
		{"snappy+json", compressed(t, "snappy stream", body)},
		{"lz4+zstd+snappy+json", compressed(t, "lz4", compressed(t, "zstd", compressed(t, "snappy", body)))},
		{"zlib+gzip+zlib+json", compressed(t, "zlib", compressed(t, "gzip", z))},
	}
	for _, tt := range tests {
		c := mustNew(t, tt.codec)
		for range 3 {
			doc, err := c.Document(tt.body)
			if want := replicator.ObjectOf(map[string]any{"a": int64(1)}); err != nil || !reflect.DeepEqual(doc, want) {
				t.Errorf("%s: %v, %v", tt.codec, doc, err)
			}
		}
	}
}

func TestBadCompressedBodiesAreErrors(t *testing.T) {
	body := []byte(`{"a":"secret"}`)
	z, g := compressed(t, "zlib", body), compressed(t, "gzip", body)
	flipped := bytes.Clone(z)
	flipped[len(flipped)-1] ^= 1
	tests := []struct {
		name, codec string
		body        []byte
		want        string
	}{
		{"plain", "zlib+json", body, "zlib: zlib: invalid header"},
		{"plain", "gzip+json", body, "gzip: gzip: invalid header"},
		{"short", "zlib+json", z[:len(z)-5], "zlib: the body is cut short"},
		{"short", "gzip+json", g[:5], "gzip: the body is cut short"},
		{"checksum", "zlib+json", flipped, "zlib: zlib: invalid checksum"},
		{"trailing", "zlib+json", append(bytes.Clone(z), 'x'), "zlib: something follows the end of the compressed body"},
		{"trailing", "gzip+json", append(bytes.Clone(g), "secret and more"...), "gzip: gzip: invalid header"},
		{"plain", "zstd+json", body, "zstd: invalid input: magic number mismatch"},
		{"short", "zstd+json", compressed(t, "zstd", body)[:12], "zstd: the body is cut short"},
		{"plain", "lz4+json", body, "lz4: the body is neither an LZ4 frame nor a block that starts with its size"},
		{"block bomb", "lz4+json", compressed(t, "lz4 block", make([]byte, MaxSize+1)),
			"lz4: the body is larger than 64 MiB when it is decompressed"},
		{"short", "lz4+json", compressed(t, "lz4", body)[:12], "lz4: the body is cut short"},
		{"short block", "lz4+json", []byte("\x07\x00\x00\x00x"),
			"lz4: the body is neither an LZ4 frame nor a block that starts with its size"},
		{"block of nothing", "lz4+json", []byte("\x00\x00\x00\x00\x0fa\x01\x00\x18\x00\x00"),
			"lz4: the body is neither an LZ4 frame nor a block that starts with its size"},
		{"lying block", "lz4+json", []byte("\x00\x00\x00\x01x"),
			"lz4: the body is neither an LZ4 frame nor a block that starts with its size"},
		{"nothing", "lz4+json", []byte("x"), "lz4: the body is cut short"},
		{"plain", "snappy+json", body, "snappy: s2: corrupt input"},
		{"short", "snappy+json", compressed(t, "snappy stream", body)[:15], "snappy: s2: corrupt input"},
		{"bomb", "zstd+json", compressed(t, "zstd", make([]byte, MaxSize+1)),
			"zstd: the body is larger than 64 MiB when it is decompressed"},
		{"bomb", "lz4+json", compressed(t, "lz4", make([]byte, MaxSize+1)),
			"lz4: the body is larger than 64 MiB when it is decompressed"},
		{"bomb", "lz4+json", compressed(t, "lz4 block", make([]byte, MaxSize+1)),
			"lz4: the body is larger than 64 MiB when it is decompressed"},
		{"bomb", "snappy+json", compressed(t, "snappy", make([]byte, MaxSize+1)),
			"snappy: the body is larger than 64 MiB when it is decompressed"},
		{"bomb", "snappy+json", compressed(t, "snappy stream", make([]byte, MaxSize+1)),
			"snappy: the body is larger than 64 MiB when it is decompressed"},
		{"empty", "zlib+json", compressed(t, "zlib", nil), "the body is empty"},
		{"NULL", "zlib+json", nil, "the body is NULL"},
		{"bomb", "zlib+json", compressed(t, "zlib", make([]byte, MaxSize+1)),
			"zlib: the body is larger than 64 MiB when it is decompressed"},
		{"bomb", "gzip+zlib+json", compressed(t, "gzip", compressed(t, "zlib", make([]byte, MaxSize+1))),
			"zlib: the body is larger than 64 MiB when it is decompressed"},
	}
	for _, tt := range tests {
		c := mustNew(t, tt.codec)
		if _, err := c.Document(tt.body); err == nil || err.Error() != tt.want {
			t.Errorf("%s %s: got %v, want %s", tt.name, tt.codec, err, tt.want)
		}
		kind, _, _ := strings.Cut(tt.codec, "+")
		if good := compressed(t, kind, body); tt.codec == kind+"+json" { // the pooled reader must still work
			if _, err := c.Document(good); err != nil {
				t.Errorf("%s after %s: %v", tt.codec, tt.name, err)
			}
		}
	}
}

func TestValuesOutliveTheMemoryOfDecompression(t *testing.T) {
	d := mustNew(t, "zlib+json").Decoder([]string{"a"})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			want := strings.Repeat(string(rune('a'+g)), 100)
			body := compressed(t, "zlib", []byte(`{"a":"`+want+`"}`))
			var kept []any
			for range 200 {
				values := make([]any, 1)
				if err := d.Decode(body, values); err != nil {
					t.Error(err)
					return
				}
				kept = append(kept, values[0])
			}
			for _, v := range kept {
				if v != want {
					t.Errorf("got %v, want %s", v, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func FuzzLayers(f *testing.F) {
	kinds := []string{"zlib", "gzip", "zstd", "lz4", "snappy"}
	for i, kind := range kinds {
		f.Add(i, compressed(f, kind, []byte(`{"a":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`)))
	}
	f.Add(3, compressed(f, "lz4 block", []byte("aaaaaaaaaaaaaaaaaaaaaaaa")))
	f.Add(4, compressed(f, "snappy stream", []byte("aaaaaaaaaaaaaaaaaaaaaaaa")))
	layers := make([]layer, len(kinds))
	for i, kind := range kinds {
		layers[i] = layerByName(kind)
	}
	f.Fuzz(func(t *testing.T, i int, body []byte) {
		if i < 0 || i >= len(layers) {
			return
		}
		out, err := layers[i](nil, body)
		if err == nil && len(out) > MaxSize {
			t.Fatalf("%s gave %d bytes", kinds[i], len(out))
		}
		again, errAgain := layers[i](make([]byte, 0, 100), body)
		if (err == nil) != (errAgain == nil) || err == nil && !bytes.Equal(out, again) {
			t.Fatalf("%s gave %d bytes, %v, then %d, %v", kinds[i], len(out), err, len(again), errAgain)
		}
	})
}

// A decompression bomb costs memory up to MaxSize, not up to the next power of two.
func TestABodyThatIsTooLargeCostsNoMoreThanTheBound(t *testing.T) {
	for _, kind := range []string{"zlib", "gzip", "lz4"} {
		bomb := compressed(t, kind, make([]byte, MaxSize+MaxSize/2))
		out, err := layerByName(kind)(make([]byte, 0, minLarge), bomb)
		if err == nil || !strings.Contains(err.Error(), "larger than") {
			t.Errorf("%s: %v", kind, err)
		}
		if cap(out) > MaxSize+1 {
			t.Errorf("%s: %d bytes were taken, want at most %d", kind, cap(out), MaxSize+1)
		}
		whole, err := layerByName(kind)(make([]byte, 0, minLarge), compressed(t, kind, make([]byte, MaxSize)))
		if err != nil || len(whole) != MaxSize {
			t.Errorf("%s: a body of just the bound: %d bytes, %v", kind, len(whole), err)
		}
	}
}
