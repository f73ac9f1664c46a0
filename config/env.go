package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

var errUnset = errors.New("the environment variable is not set")

type unsetError string

func (e unsetError) Error() string {
	return fmt.Sprintf("the environment variable %s is not set: set it, or write ${%s:-default}", string(e), string(e))
}

func (unsetError) Is(target error) bool { return target == errUnset }

// expand replaces ${NAME} and ${NAME:-default} in a decoded string. It does not expand the inserted values again.
// Errors name only the variable, because the text around it may contain a secret.
func expand(text string, env func(string) (string, bool)) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var b strings.Builder
	for {
		at := strings.Index(text, "${")
		if at < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		if at > 0 && text[at-1] == '$' {
			b.WriteString(text[:at-1] + "${")
			text = text[at+2:]
			continue
		}
		b.WriteString(text[:at])
		inside, rest, closed := strings.Cut(text[at+2:], "}")
		if !closed {
			return "", fmt.Errorf("a ${ is not closed by }. Write $${ for a literal ${")
		}
		name, fallback, has := strings.Cut(inside, ":-")
		if !variable.MatchString(name) {
			return "", fmt.Errorf("${…} needs the name of an environment variable, such as ${NAME} or " +
				"${NAME:-default}. Write $${ for a literal ${")
		}
		value, set := env(name)
		switch {
		case has && value == "":
			value = fallback
		case !set:
			return "", unsetError(name)
		}
		b.WriteString(value)
		text = rest
	}
}
