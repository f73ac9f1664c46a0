package judge

import (
	"encoding/json"
	"fmt"
)

// Cursor encodes `place`, which says where the next page of a listing begins. Only the Target that made a cursor can
// read it. Binary data in `place` must be []byte: JSON changes a string that is not UTF-8.
func Cursor(place any) string {
	text, err := json.Marshal(place)
	if err != nil {
		panic("encoding the cursor of a listing: " + err.Error())
	}
	return string(text)
}

// At decodes a cursor into `place`. The cursor "" stands for the beginning, and leaves `place` unchanged.
func At(cursor string, place any) error {
	if cursor == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(cursor), place); err != nil {
		return fmt.Errorf("%q is not a cursor of this listing: %w", cursor, err)
	}
	return nil
}
