package changelog

import (
	"testing"
	"time"

	"replicator"
)

// usual is a record like those of package bench.
func usual(tb testing.TB) *Record {
	cell := replicator.Cell{Table: "cell", Column: "users", Key: key(tb, []byte("0123456789abcdef"))}
	body := make([]byte, 250)
	for i := range body {
		body[i] = 'a' + byte(i%26)
	}
	copy(body, `{"email":"someone@example.org","text":"`)
	copy(body[len(body)-2:], `"}`)
	return &Record{Cell: cell, State: replicator.State{Version: 1_760_000_000_000_000_001, Order: 81_604_378_626},
		Codec: "json", Row: &replicator.Row{Cell: cell, Version: 1_760_000_000_000_000_001, Order: 81_604_378_626,
			Time: time.Unix(1_760_000_000, 1).UTC(), Body: body,
			Names: []string{"added_at", "row_key", "column_name", "ref_key", "created_at"},
			Columns: []any{int64(812_345), []byte("0123456789abcdef"), "users", int64(1_760_000_000_000_000_001),
				"2026-11-22 17:50:00"}}}
}

func BenchmarkEncode(b *testing.B) {
	r := usual(b)
	b.ReportAllocs()
	for b.Loop() {
		Encode(r)
	}
}

func BenchmarkDecode(b *testing.B) {
	in := Encode(usual(b))
	var d Decoder
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(in); err != nil {
			b.Fatal(err)
		}
	}
}
