package codec

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"replicator"
)

// filler writes a body with the members "many", a list or map of n elements, and "one", which is 1.
type filler struct {
	name  string
	write func(n int) string
}

func joined(element, between string, n int) string {
	if n == 0 {
		return ""
	}
	return strings.Repeat(element+between, n-1) + element
}

// fillers are bodies of a format that take much more memory than bytes.
func fillers(format string) []filler {
	sized := func(open string, element string) func(int) string {
		return func(n int) string {
			return string(binary.BigEndian.AppendUint32([]byte(open), uint32(n))) + strings.Repeat(element, n)
		}
	}
	switch format {
	case "json":
		body := func(element string) func(int) string {
			return func(n int) string { return `{"many":[` + joined(element, ",", n) + `],"one":1}` }
		}
		return []filler{{"lists", body("[]")}, {"numbers", body("1")}, {"objects", body("{}")}, {"texts", body(`""`)},
			{"fractions", body("1.5")}, {"members", body(`{"":1}`)}}
	case "msgpack":
		const open = "\x82\xa3one\x01\xa4many\xdd"
		return []filler{{"lists", sized(open, "\x90")}, {"numbers", sized(open, "\xcd\xff\xff")},
			{"maps", sized(open, "\x80")}, {"texts", sized(open, "\xa1x")},
			{"members", sized(open, "\x81\xa0\x01")}}
	case "cbor":
		const open = "\xa2\x63one\x01\x64many\x9a"
		endless := func(element string) func(int) string {
			return func(n int) string { return "\xbf\x63one\x01\x64many\x9f" + strings.Repeat(element, n) + "\xff\xff" }
		}
		return []filler{{"lists", sized(open, "\x80")}, {"numbers", sized(open, "\x19\xff\xff")},
			{"maps", endless("\xa0")}, {"endless lists", endless("\x9f\xff")}, {"texts", endless("\x61x")},
			{"decimals", endless("\xc4\x82\x20\x0f")}}
	}
	body := func(element string) func(int) string {
		return func(n int) string {
			return "}X\x03\x00\x00\x00oneK\x01sX\x04\x00\x00\x00many](" + strings.Repeat(element, n) + "es."
		}
	}
	return []filler{{"lists", body("]")}, {"numbers", body("M\xff\xff")}, {"dictionaries", body("}")},
		{"texts", body("X\x01\x00\x00\x00x")}, {"stored", body("K\x01\x94")},
		{"one value many times", func(n int) string { return strings.Replace(body("2")(n), "](", "](K\x01", 1) }}}
}

// decodeAtOnce decodes the same body in several goroutines at once. It returns the memory that the values hold, the
// memory that was allocated in total, and the first goroutine's error.
func decodeAtOnce(t *testing.T, d *Decoder, body []byte) (held, made int64, err error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all [inFlight][2]any
	var errs [inFlight]error
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() { errs[i] = d.Decode(body, all[i][:len(d.want.list)]) })
	}
	wait.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	for i := range all {
		if !reflect.DeepEqual(errs[i], errs[0]) {
			t.Errorf("the same body is %v, and %v", errs[0], errs[i])
		}
		if one := all[i][0]; errs[i] == nil && one != int64(1) {
			t.Errorf("one is %v", one)
		}
	}
	large.drop()
	return int64(after.HeapAlloc) - int64(before.HeapAlloc), int64(after.TotalAlloc - before.TotalAlloc), errs[0]
}

// inFlight is the number of bodies that are decoded at the same time.
const inFlight = 2

// A body with too many values fails before they are created, whatever its compression.
func TestWhatABodyComesToInMemoryIsBounded(t *testing.T) {
	const (
		most   = 64 << 20 // docs/sizing.md: the memory of a body's values, besides the body itself
		many   = MaxValues * 3 / 2
		making = 6 // the memory of all allocations of a growing list, divided by the list's final size
	)
	for _, format := range replicator.Formats() {
		for _, f := range fillers(format) {
			t.Run(format+"/"+f.name, func(t *testing.T) {
				d := mustNew(t, format).Decoder([]string{"one", "many"})
				body := []byte(f.write(many))
				_, made, err := decodeAtOnce(t, d, body)
				if err == nil || !strings.Contains(err.Error(), "more than") {
					t.Errorf("too many values: %v", err)
				}
				if bound := inFlight * making * int64(most); made > bound {
					t.Errorf("to refuse %d bodies of %d bytes took %d MiB, want %d at most", inFlight, len(body), made>>20, bound>>20)
				}
				body = []byte(f.write(MaxValues / 8))
				held, _, err := decodeAtOnce(t, d, body)
				if err != nil {
					t.Errorf("few values: %v", err)
				}
				if bound := inFlight * int64(most); held > bound {
					t.Errorf("%d bodies of %d bytes take %d MiB, want %d at most", inFlight, len(body), held>>20, bound>>20)
				}
			})
		}
	}
	for i, compression := range replicator.Compressions() { // one format each: the decoders are the same
		format := replicator.Formats()[i%len(replicator.Formats())]
		t.Run(compression+"+"+format, func(t *testing.T) {
			f := fillers(format)[0]
			body := compressed(t, compression, []byte(f.write(many)))
			d := mustNew(t, compression+"+"+format).Decoder([]string{"one", "many"})
			_, made, err := decodeAtOnce(t, d, body)
			if err == nil || !strings.Contains(err.Error(), "more than") {
				t.Errorf("too many values: %v", err)
			}
			if bound := inFlight * (making + 4) * int64(most); made > bound {
				t.Errorf("to refuse %d bodies of %d bytes took %d MiB, want %d at most", inFlight, len(body), made>>20, bound>>20)
			}
		})
	}
	t.Run("JSON column", func(t *testing.T) {
		_, err := JSON([]byte("[" + joined("[]", ",", many) + "]"))
		if err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("too many values: %v", err)
		}
	})
}

// Members that no view needs are checked but take no memory. Pickles are not tested here, because a pickle always runs
// completely; maxSteps limits it.
func TestWhatNobodyWantsIsNotMade(t *testing.T) {
	const many = MaxValues * 3 / 2
	for _, format := range []string{"json", "msgpack", "cbor"} {
		for _, f := range fillers(format) {
			t.Run(format+"/"+f.name, func(t *testing.T) {
				d := mustNew(t, format).Decoder([]string{"one"})
				body := []byte(f.write(many))
				held, _, err := decodeAtOnce(t, d, body)
				if err != nil || held > 1<<20 {
					t.Errorf("%d bodies take %d bytes, %v", inFlight, held, err)
				}
				cut := body[:len(body)-2]
				if err := d.Decode(cut, make([]any, 1)); err == nil {
					t.Error("a body that is cut short is decoded")
				}
			})
		}
	}
}

// A pickle can join the same texts and copy the same lists many times, so the decoder limits the copies.
func TestWhatAPickleCopiesIsBounded(t *testing.T) {
	list := func(first, again string) string { return "](" + first + strings.Repeat(again, 200) + "e." }
	text := fmt.Sprintf("X\x00\x00\x10\x00%sq\x00", strings.Repeat("x", 1<<20))
	for name, pickle := range map[string]string{
		"classes":       list(text, "h\x00h\x00\x93"),
		"inner classes": list(text+"cm\nc\nq\x01", "cbuiltins\ngetattr\nh\x01h\x00\x86Rq\x01"),
		"encoded texts": list(text+"X\x06\x00\x00\x00latin1q\x01", "c_codecs\nencode\nh\x00h\x01\x86R"),
		"dictionaries": list("]("+strings.Repeat("K\x01K\x02\x86", 100_000)+"eq\x00",
			"ccollections\nOrderedDict\nh\x00\x85R"),
		"numbers": "}X\x01\x00\x00\x00a" + strings.TrimSuffix(list(text, "cdecimal\nDecimal\nh\x00\x85R"), ".") + "s.",
		"marks":   strings.Repeat("(", 4*MaxValues),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := mustNew(t, "pickle").Document([]byte(pickle))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: %v", name, err)
		}
		if made := after.TotalAlloc - before.TotalAlloc; made > 512<<20 {
			t.Errorf("%s: refused after %d MiB", name, made>>20)
		}
	}
}

// Skipped members must have valid syntax, like all others. A skipped member of any type doesn't affect the wanted
// member.
func TestWhatIsSkippedIsChecked(t *testing.T) {
	for _, c := range []struct{ format, value, err string }{
		{"msgpack", "\xc1", "0xc1 does not begin a value"},
		{"msgpack", "\x81\x90\x01", "neither text nor an integer"},
		{"msgpack", "\x92\xa1\xff\xc4\x01x", ""},
		{"msgpack", "\xd4\x07x", "extension type 7"},
		{"cbor", "\x61\xff", "not valid UTF-8"},
		{"cbor", "\x7f\x61\xff\xff", "not valid UTF-8"},
		{"cbor", "\xc4\x82\x20\x0f", ""},
		{"cbor", "\xc4\x81\x20", "decimal fraction"},
		{"cbor", "\xc2\x42\x01\x02", ""},
		{"cbor", "\xc2\x01", "big integer"},
		{"cbor", "\xd8\x19\x01", "reference tag"},
		{"cbor", strings.Repeat("\x81", 600) + "\x01", "deeper"},
		{"msgpack", strings.Repeat("\x91", 600) + "\x01", "deeper"},
	} {
		head := map[string]string{"msgpack": "\x82\xa1x", "cbor": "\xd9\xd9\xf7\xa2\x61x"}[c.format]
		rest := map[string]string{"msgpack": "\xa1y\x02", "cbor": "\x61y\x02"}[c.format]
		body := []byte(head + c.value + rest)
		codec := mustNew(t, c.format)
		for _, want := range []string{"x", "y"} {
			values := make([]any, 1)
			err := codec.Decoder([]string{want}).Decode(body, values)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%s %x, wanting %s: %v", c.format, c.value[:min(len(c.value), 8)], want, err)
			}
			if err == nil && want == "y" && values[0] != int64(2) {
				t.Errorf("%s %x: y is %v", c.format, c.value, values[0])
			}
		}
		if doc, err := codec.Document(body); (err == nil) != (c.err == "") || err == nil && doc.Get("y") != int64(2) {
			t.Errorf("%s %x: the document is %v, %v", c.format, c.value[:min(len(c.value), 8)], doc, err)
		}
	}
	for _, format := range []string{"msgpack", "cbor", "pickle"} {
		body := map[string]string{"msgpack": "\x82\xa1a\x01\xa1a\xc0", "cbor": "\xa2\x61a\x01\x61a\xf6",
			"pickle": "}U\x01aK\x01sU\x01aNs."}[format]
		values := make([]any, 1)
		if err := mustNew(t, format).Decoder([]string{"a"}).Decode([]byte(body), values); err != nil || values[0] != nil {
			t.Errorf("%s: of two members of one name the last counts, not %v, %v", format, values[0], err)
		}
	}
}
