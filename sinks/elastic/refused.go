package elastic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"replicator/sinks/judge"
)

// An item that Elasticsearch had no room for is sent again a few times. After that, the pipeline waits longer and
// retries.
const (
	maxTries   = 6
	firstDelay = 50 * time.Millisecond
)

func backoff(n int) time.Duration {
	delay := firstDelay << n
	return delay/2 + rand.N(delay/2)
}

// refuse decides how to continue after a failed write: read the document again, retry after a while, or reject a value
// that can't be stored. Everything else is an error.
func (d *document) refuse() (wait time.Duration, err error) {
	f := d.failure
	switch {
	case f.Status == http.StatusConflict:
		d.forget()
		return 0, nil
	case f.isGone():
		return 0, gone(d.index)
	case f.isTemporary() && d.tries < maxTries:
		d.tries++
		return backoff(d.tries), nil
	case f.isClosed(), f.lacksPipeline(): // the index is at fault, not the document
	case f.Status == http.StatusBadRequest || f.Status == http.StatusRequestEntityTooLarge:
		return 0, d.blame(f)
	}
	view := d.keeper.view
	return 0, ofView(view, fmt.Errorf("writing a document of view %s: %w", view.Name, f.classify()))
}

// blame finds the cell whose contribution the index refused, and rejects that contribution. No op may have changed that
// cell: when another cell of the document stops providing a field, this cell's value of the field is shown instead.
func (d *document) blame(f *failure) error {
	reason := error(f)
	if f.Status == http.StatusRequestEntityTooLarge {
		reason = errTooLarge(0)
	}
	suspected := hasOddName
	if field := f.field(); field != "" { // for a member of an object, field is a path
		suspected = func(name string, _ []byte) bool { return name == field || strings.HasPrefix(field, name+".") }
	}
	if s, field := d.suspect(suspected); s != nil {
		value := d.keeper.view.Fields[field].Name + " is " + kindOf(s.fields[field])
		return d.reject(s, fmt.Errorf("%w; %s", reason, value))
	}
	for i := range d.changes {
		if c := &d.changes[i]; c.applied {
			if s := d.next.find(c.slot.name); s.Shown {
				return d.reject(s, reason)
			}
		}
	}
	for _, s := range d.next {
		if s.Shown {
			return d.reject(s, reason)
		}
	}
	return fmt.Errorf("view %s: its index refuses even a document without fields: %w. Rebuild the view",
		d.keeper.view.Name, f)
}

func (d *document) reject(s *slot, reason error) error {
	if d.refused == nil {
		d.refused = map[string]error{}
	}
	d.refused[s.name] = reason
	return nil
}

// suspect returns the first field that `suspected` accepts, and the cell that provides its value; nil if there is none.
func (d *document) suspect(suspected func(name string, value []byte) bool) (s *slot, field int) {
	for i, f := range d.keeper.view.Fields {
		giver := judge.Giver(len(d.next), func(n int) bool {
			value := d.next[n].field(i)
			return value != nil && suspected(f.Name, value)
		})
		if giver >= 0 {
			return d.next[giver], i
		}
	}
	return nil, 0
}

// kindOf describes the type of a field's value, for messages, which never show values.
func kindOf(value []byte) string {
	switch value[0] {
	case '"':
		return "a text"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
}

// hasOddName reports whether a field's value has a member that no mapping can name: its name is blank, or is empty
// before, between or after dots.
func hasOddName(_ string, value []byte) bool {
	var v any
	return json.Unmarshal(value, &v) == nil && oddName(v)
}

func oddName(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, oddName)
	case map[string]any:
		for name, e := range v {
			blank := func(part string) bool { return strings.TrimSpace(part) == "" }
			if slices.ContainsFunc(strings.Split(name, "."), blank) || oddName(e) {
				return true
			}
		}
	}
	return false
}
