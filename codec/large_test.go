package codec

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// Large bodies are decompressed one at a time, into the same memory.
func TestLargeBodiesAreDecompressedIntoOneSpace(t *testing.T) {
	const size = 16 << 20
	var body bytes.Buffer
	w := zlib.NewWriter(&body)
	fmt.Fprintf(w, `{"email": "a@x.org", "pad": %q}`, strings.Repeat("x", size))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := New("zlib+json")
	if err != nil {
		t.Fatal(err)
	}
	decode := func() {
		values := make([]any, 1)
		if err := c.Decoder([]string{"email"}).Decode(body.Bytes(), values); err != nil || values[0] != "a@x.org" {
			t.Fatalf("%v, %v", values, err)
		}
	}
	decode()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 8
	for range times {
		decode()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / times; each > size/4 {
		t.Errorf("a body that decompresses to %d bytes takes %d, each time", size, each)
	}
	large.drop()
	if large.kept != nil {
		t.Error("the memory is kept")
	}
	decode()
}
