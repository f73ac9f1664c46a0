package view

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"replicator"
	"replicator/internal/keytemplate"
	"replicator/internal/uuid"
)

// template makes a key from values: "user:{row_key}". Different values give different keys: in every value but the
// last, '%' and the delimiter that ends the value are percent-encoded.
type template struct {
	parts []part
	tail  string // the text after the last value
}

// part is a piece of a template: some text, and the value that follows it.
type part struct {
	text   string
	path   path
	form   form
	escape byte // keytemplate.Delimiter of the text after the value; 0 in the last part

	leaf   leaf
	entity bool // the value is a key column. It must not be normalized, or two different rows could get the same key
}

type form uint8

const (
	formPlain  form = iota // any value, as replicator.FormatValue formats it
	formUUID               // 16 bytes as 8-4-4-4-12 hexadecimal digits
	formHex                // only bytes or a UUID, as hexadecimal digits
	formBase64             // only bytes or a UUID, as base64url without padding
)

func parseTemplate(text string) (*template, error) {
	parts, tail, err := keytemplate.Parse(text)
	if err != nil {
		return nil, err
	}
	t := &template{tail: tail}
	for _, written := range parts {
		p := part{text: written.Text}
		if strings.HasPrefix(written.Path, "=") {
			return nil, fmt.Errorf("{%s}: a template can contain columns and members of the body, but not expressions",
				written.Path)
		}
		if p.form, err = parseForm(written.Form); err != nil {
			return nil, err
		}
		if p.path, err = parsePath(written.Path); err != nil {
			return nil, err
		}
		t.parts = append(t.parts, p)
	}
	for i := range t.parts[:max(len(t.parts)-1, 0)] {
		between := t.parts[i+1].text
		if t.parts[i].escape = keytemplate.Delimiter(between); t.parts[i].escape == 0 {
			return nil, fmt.Errorf("{%s} and {%s} need a character such as : between them, or different values "+
				"could make the same key",
				t.parts[i].path.text, t.parts[i+1].path.text)
		}
	}
	return t, nil
}

func parseForm(name string) (form, error) {
	switch name {
	case "":
		return formPlain, nil
	case "uuid":
		return formUUID, nil
	case "hex":
		return formHex, nil
	case "base64":
		return formBase64, nil
	}
	return 0, fmt.Errorf("%q is not a template format%s. Use uuid, hex or base64", name,
		didYouMean(name, keytemplate.Forms()))
}

// render makes the key or member. ok is false if one of its values is missing.
func (s *scope) render(t *template) (key string, ok bool, err error) {
	b := s.text[:0]
	for i := range t.parts {
		p := &t.parts[i]
		v, err := s.value(&p.leaf)
		if err != nil || v == nil {
			return "", false, err
		}
		b = append(b, p.text...)
		shown := len(b)
		if b, err = p.show(b, v); err != nil {
			return "", false, fmt.Errorf("{%s}: %w", p.path.text, err)
		}
		if p.escape != 0 {
			s.shown = append(s.shown[:0], b[shown:]...)
			b = keytemplate.AppendEncoded(b[:shown], s.shown, p.escape)
		}
	}
	b = append(b, t.tail...)
	s.text = b
	if len(b) == 0 {
		return "", false, errors.New("the template's values give an empty string, which can't be a key or a member")
	}
	return string(b), true, nil
}

func (p *part) show(dst []byte, v any) ([]byte, error) {
	if !scalar(v) {
		return dst, fmt.Errorf("%s can't be part of a key", sortOf(v))
	}
	if p.form == formPlain {
		return replicator.AppendValue(dst, v), nil
	}
	b, err := p.bytes(v)
	if err != nil {
		return dst, err
	}
	switch p.form {
	case formUUID:
		if len(b) != 16 {
			return dst, fmt.Errorf("a UUID has 16 bytes, but the value has %d", len(b))
		}
		return uuid.Append(dst, b), nil
	case formBase64:
		return base64.RawURLEncoding.AppendEncode(dst, b), nil
	}
	return hex.AppendEncode(dst, b), nil
}

// bytes returns a value for uuid, hex and base64: bytes, or the 16 bytes of a UUID that is stored as text.
func (p *part) bytes(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return v, nil
	case string:
		b, ok := uuid.Parse(v)
		if !ok {
			return nil, errors.New("the text is not a UUID. The formats uuid, hex and base64 are only for UUIDs and " +
				"binary values. Remove the format")
		}
		if p.entity && v != uuid.Text(b) {
			return nil, errors.New("the key's text is not a UUID in lowercase digits with dashes, so two entities " +
				"could get the same key")
		}
		return b, nil
	}
	return nil, fmt.Errorf("the formats uuid, hex and base64 can't show %s. Remove the format", sortOf(v))
}
