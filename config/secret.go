package config

import "log/slog"

// Secret is text that is never shown: a DSN, a URL with a password, a token. Only Reveal returns it.
type Secret string

const hidden = "***"

// Reveal returns the text. Only the code that uses the secret calls it.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString keeps %#v from showing the text.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText keeps encoders (JSON, TOML, XML) from showing the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue keeps slog from showing the text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
