package codec

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func compressed(t testing.TB, kind string, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch kind {
	case "zlib":
		w = zlib.NewWriter(&b)
	case "gzip":
		w = gzip.NewWriter(&b)
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
		{"zlib+gzip+zlib+json", compressed(t, "zlib", compressed(t, "gzip", z))},
	}
	for _, tt := range tests {
		c := mustNew(t, tt.codec)
		for range 3 {
			doc, err := c.Document(tt.body)
			if want := map[string]any{"a": int64(1)}; err != nil || !reflect.DeepEqual(doc, want) {
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
		{"empty", "zlib+json", compressed(t, "zlib", nil), "the body is empty"},
		{"NULL", "zlib+json", nil, "the body is NULL"},
		{"bomb", "zlib+json", compressed(t, "zlib", make([]byte, MaxSize+1)), "zlib: the body is larger than 64 MiB when it is decompressed"},
		{"bomb", "gzip+zlib+json", compressed(t, "gzip", compressed(t, "zlib", make([]byte, MaxSize+1))), "zlib: the body is larger than 64 MiB when it is decompressed"},
	}
	for _, tt := range tests {
		c := mustNew(t, tt.codec)
		for range 2 { // a reader that failed must be fit for the next body
			if _, err := c.Document(tt.body); err == nil || err.Error() != tt.want {
				t.Errorf("%s %s: got %v, want %s", tt.name, tt.codec, err, tt.want)
			}
		}
		if tt.codec == "zlib+json" {
			if _, err := c.Document(z); err != nil {
				t.Errorf("after %s: %v", tt.name, err)
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
