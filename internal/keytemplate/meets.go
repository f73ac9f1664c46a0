package keytemplate

import "strings"

// Delimiter returns the byte that shows where a value in a key ends. `between` is the text between this value and the
// next value. The delimiter is the first byte of this text that percent-encoding never writes; 0 if there is none.
func Delimiter(between string) byte {
	for i := range len(between) {
		if !strings.ContainsRune("%0123456789ABCDEF", rune(between[i])) {
			return between[i]
		}
	}
	return 0
}

// Fill makes a key from a template and its parts' values, already formatted.
func Fill(parts []Part, tail string, values []string) string {
	var b []byte
	for i, p := range parts {
		b = append(b, p.Text...)
		if i == len(parts)-1 {
			b = append(b, values[i]...)
			break
		}
		b = AppendEncoded(b, []byte(values[i]), Delimiter(parts[i+1].Text))
	}
	return string(append(b, tail...))
}

// AppendEncoded appends a value with delimiter and '%' percent-encoded.
func AppendEncoded(b, value []byte, delimiter byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range value {
		if c == delimiter || c == '%' {
			b = append(b, '%', digits[c>>4], digits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}

// Meet reports whether two templates may make the same key. It returns false only if the templates' text and the forms
// and encodings of their values exclude equal keys. A template that can't be parsed meets no other.
func Meet(a, b string) bool {
	p, err := pattern(a)
	if err != nil {
		return false
	}
	q, err := pattern(b)
	if err != nil {
		return false
	}
	// The templates meet if both patterns can be walked to their ends in step. seen holds the pairs of positions that a
	// walk reached: position i of p and j of q as i*width+j.
	width := len(q) + 1
	seen := make([]bool, (len(p)+1)*width)
	seen[0] = true
	for at := range seen {
		if !seen[at] {
			continue
		}
		i, j := at/width, at%width
		if i < len(p) && p[i].any {
			seen[at+width] = true
		}
		if j < len(q) && q[j].any {
			seen[at+1] = true
		}
		if i == len(p) || j == len(q) || !p[i].bytes.meets(&q[j].bytes) {
			continue
		}
		// Both steps match a common byte: take it. A step that matches any number of bytes stays, because it may match more.
		if !p[i].any {
			next := at + width
			if !q[j].any {
				next++
			}
			seen[next] = true
		} else if !q[j].any {
			seen[at+1] = true
		}
	}
	return seen[len(seen)-1]
}

// step matches one byte out of a set, or any number of them.
type step struct {
	bytes byteSet
	any   bool
}

// pattern returns steps that, one after the other, match each key that a template makes. They may match more keys.
func pattern(template string) ([]step, error) {
	parts, tail, err := Parse(template)
	if err != nil {
		return nil, err
	}
	var steps []step
	text := func(s string) {
		for i := range len(s) {
			var one step
			one.bytes.add(s[i : i+1])
			steps = append(steps, one)
		}
	}
	for i, p := range parts {
		text(p.Text)
		value := step{any: true, bytes: shown(p.Form)}
		if i < len(parts)-1 {
			value.bytes.add("%0123456789ABCDEF")
			value.bytes.remove(Delimiter(parts[i+1].Text))
		}
		steps = append(steps, value)
	}
	text(tail)
	return steps, nil
}

// shown returns the bytes that a value can have in a form, such as hex.
func shown(form string) (s byteSet) {
	const lower = "abcdefghijklmnopqrstuvwxyz"
	switch form {
	case "uuid":
		s.add("0123456789abcdef-")
	case "hex":
		s.add("0123456789abcdef")
	case "base64":
		s.add("0123456789-_" + lower + strings.ToUpper(lower))
	default:
		s = byteSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	}
	return s
}

type byteSet [4]uint64

func (s *byteSet) add(bytes string) {
	for i := range len(bytes) {
		s[bytes[i]>>6] |= 1 << (bytes[i] & 63)
	}
}

func (s *byteSet) remove(b byte) { s[b>>6] &^= 1 << (b & 63) }

func (s *byteSet) meets(other *byteSet) bool {
	return s[0]&other[0]|s[1]&other[1]|s[2]&other[2]|s[3]&other[3] != 0
}
