package canal

import "testing"

// A body that is most of a large event is not copied: the row keeps the event's memory. All other bodies are copied,
// because their event's memory is reused or is much larger than the body.
func TestALargeBodyIsNotCopied(t *testing.T) {
	event := make([]byte, 4*large)
	for name, c := range map[string]struct {
		body   []byte
		raw    int
		shared bool
	}{
		"most of the event":       {event[100:], len(event), true},
		"a small part of it":      {event[:large], len(event), false},
		"a small event":           {event[:100], 120, false},
		"a compressed one's part": {event[100:], 0, false},
	} {
		s := stream{raw: c.raw}
		if kept := s.kept(c.body); (&kept[0] == &c.body[0]) != c.shared || len(kept) != len(c.body) {
			t.Errorf("%s: shared is not %v", name, c.shared)
		}
	}
}
