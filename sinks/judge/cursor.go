package judge

import (
	"encoding/json"
	"fmt"
)

// Cursor writes the place where a walk in pages goes on: what a Target returns as next. A cursor means something to the
// Target that made it, and to no other program. What is no text, as a Key, stands in the place as bytes: a string that
// is not UTF-8 comes back as another one.
func Cursor(place any) string {
	text, err := json.Marshal(place)
	if err != nil {
		panic("a cursor is made of texts and numbers: " + err.Error())
	}
	return string(text)
}

// At reads a cursor into place, which stays as it is for "", the beginning.
func At(cursor string, place any) error {
	if cursor == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(cursor), place); err != nil {
		return fmt.Errorf("a walk can't go on at %q: %w", cursor, err)
	}
	return nil
}
