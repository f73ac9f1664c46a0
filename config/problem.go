package config

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// Problem is one mistake in the file. Load returns all of them, joined. errors.As finds the first.
type Problem struct {
	File string
	Line int    // 0: no line, for example if a section is missing
	Key  string // such as "views.users.kind"; "" for a syntax error
	Text string
}

func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

func join(problems []*Problem) error {
	sort.SliceStable(problems, func(i, k int) bool { return problems[i].Line < problems[k].Line })
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}
