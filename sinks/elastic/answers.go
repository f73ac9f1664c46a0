package elastic

import (
	"encoding/base64"
	"encoding/json"
)

// foundItem is one document's part of an _mget answer.
type foundItem struct {
	Found  bool            `json:"found"`
	Seq    int64           `json:"_seq_no"`
	Term   int64           `json:"_primary_term"`
	Source json.RawMessage `json:"_source"`
	Error  *failure        `json:"error"`
}

func readAnswer(answer []byte, n int) ([]foundItem, error) {
	found := make([]foundItem, 0, n)
	s := newScanner(answer)
	s.object(func(name []byte) {
		if string(name) != "docs" {
			s.value()
			return
		}
		s.array(func() {
			found = append(found, foundItem{})
			item := &found[len(found)-1]
			s.object(func(name []byte) {
				switch string(name) {
				case "found":
					item.Found = s.flag()
				case "_seq_no":
					item.Seq = s.number()
				case "_primary_term":
					item.Term = s.number()
				case "_source":
					item.Source = s.value()
				case "error":
					item.Error = s.failure()
				default:
					s.value()
				}
			})
		})
	})
	if s.end() {
		return found, nil
	}
	var whole struct {
		Docs []foundItem `json:"docs"`
	}
	err := decode(answer, &whole)
	return whole.Docs, err
}

// writtenItem is one document's part of a _bulk answer.
type writtenItem struct {
	Status int      `json:"status"`
	Seq    int64    `json:"_seq_no"`
	Term   int64    `json:"_primary_term"`
	Error  *failure `json:"error"`
}

func writeAnswer(answer []byte, n int) ([]writtenItem, error) {
	items := make([]writtenItem, 0, n)
	s := newScanner(answer)
	s.object(func(name []byte) {
		if string(name) != "items" {
			s.value()
			return
		}
		s.array(func() {
			items = append(items, writtenItem{})
			item := &items[len(items)-1]
			s.object(func([]byte) { // the only member's name is the action, such as create
				s.object(func(name []byte) {
					switch string(name) {
					case "status":
						item.Status = int(s.number())
					case "_seq_no":
						item.Seq = s.number()
					case "_primary_term":
						item.Term = s.number()
					case "error":
						item.Error = s.failure()
					default:
						s.value()
					}
				})
			})
		})
	})
	if s.end() {
		return items, nil
	}
	var whole struct {
		Items []map[string]writtenItem `json:"items"`
	}
	if err := decode(answer, &whole); err != nil {
		return nil, err
	}
	items = items[:0]
	for _, item := range whole.Items {
		for _, written := range item {
			items = append(items, written)
		}
	}
	return items, nil
}

// failure decodes the description of an error. Errors are rare, so encoding/json does that.
func (s *scanner) failure() *failure {
	f := &failure{}
	s.bad = json.Unmarshal(s.value(), f) != nil || s.bad
	return f
}

func (s *scanner) state() (state storedState) {
	s.object(func(name []byte) {
		switch string(name) {
		case "hidden":
			state.Hidden = s.flag()
		case "cells":
			state.Cells = map[string]*storedSlot{}
			s.object(func(name []byte) { state.Cells[string(name)] = s.slot() })
		default:
			s.value()
		}
	})
	return state
}

func (s *scanner) slot() *storedSlot {
	slot := &storedSlot{}
	s.object(func(name []byte) {
		switch string(name) {
		case "k":
			key, err := base64.StdEncoding.AppendDecode([]byte{}, s.text())
			slot.Key, s.bad = key, s.bad || err != nil
		case "v":
			slot.Version = s.number()
		case "o":
			slot.Order = s.number()
		case "a":
			slot.AsOf = s.number()
		case "d":
			slot.Dead = s.flag()
		case "w":
			slot.Waits = s.flag()
		case "b":
			slot.Barren = s.flag()
		case "f":
			s.bad = json.Unmarshal(s.value(), &slot.Fields) != nil || s.bad
		default:
			s.value()
		}
	})
	return slot
}
