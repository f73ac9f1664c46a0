package uuid

import "testing"

func TestATextIsAUUID(t *testing.T) {
	const text = "0189f7ea-ae2c-7809-8aeb-b819cf5e9e7f"
	for s, want := range map[string]bool{
		text:                                    true,
		"0189f7eaae2c78098aebb819cf5e9e7f":      true,
		"0189F7EA-AE2C-7809-8AEB-B819CF5E9E7F":  true,
		"":                                      false,
		"0189f7ea-ae2c-7809-8aeb-b819cf5e9e7":   false,
		"0189f7eaae2c-7809-8aeb-b819cf5e9e7f-":  false,
		"0189f7eaxae2cx7809x8aebxb819cf5e9e7f":  false,
		"0189f7ea-ae2c-7809-8aeb-b819cf5e9e7g":  false,
		"{0189f7ea-ae2c-7809-8aeb-b819cf5e9e7f": false,
	} {
		b, ok := Parse(s)
		if ok != want || ok && Text(b) != text {
			t.Errorf("%q: %x, %t", s, b, ok)
		}
	}
}
