package server

import (
	"encoding/base64"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"

	"replicator"
)

// LetterGroup describes the dead letters of one view, source and table whose reasons differ only in numbers and quoted
// values.
type LetterGroup struct {
	Group   string    `json:"group"` // the group's id, for Selection.Group; "" if Reason is "other reasons"
	View    string    `json:"view"`
	Source  string    `json:"source,omitempty"`
	Table   string    `json:"table"`
	Reason  string    `json:"reason"` // the reason of the oldest letter, or "other reasons"
	Letters int       `json:"letters"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Example string    `json:"example"`        // the id of the oldest letter
	Keys    []string  `json:"keys,omitempty"` // keys of the oldest letters; empty if reading keys needs a token
}

type groupsAnswer struct {
	Groups []LetterGroup `json:"groups"`
}

// Letter is the form in which commands and HTTP show a dead letter.
type Letter struct {
	ID        string    `json:"id"`
	View      string    `json:"view"`
	Source    string    `json:"source,omitempty"`
	Table     string    `json:"table"`
	Key       string    `json:"key"`
	Column    string    `json:"column"`
	Version   int64     `json:"version"`
	Position  string    `json:"position"`
	Reason    string    `json:"reason"`
	Time      time.Time `json:"time"`
	Bytes     int       `json:"bytes"`                // the size of the whole row
	Raw       string    `json:"raw,omitempty"`        // the row or its beginning, if it is text
	RawBase64 string    `json:"raw_base64,omitempty"` // the row or its beginning in base64, if it is not text
}

// ShowLetter returns a dead letter for display, without its row.
func ShowLetter(l replicator.DeadLetter) Letter {
	return Letter{ID: l.ID, View: l.View, Source: l.Source, Table: l.Cell.Table, Key: l.Cell.Key.String(),
		Column: l.Cell.Column, Version: l.Version, Position: l.Position, Reason: l.Reason,
		Time: l.Time.UTC().Truncate(time.Second), Bytes: len(l.Raw)}
}

// ShowRow returns a dead letter for display, with at most the first bytes of its row. A row may have megabytes.
func ShowRow(l replicator.DeadLetter, most int) Letter {
	shown := ShowLetter(l)
	if text, ok := beginningOf(l.Raw, most); ok {
		shown.Raw = text
	} else {
		shown.RawBase64 = base64.StdEncoding.EncodeToString(l.Raw[:min(len(l.Raw), most)])
	}
	return shown
}

// beginningOf returns the beginning of a text, of at most the given number of bytes, without splitting a character. It
// returns false if raw is not text.
func beginningOf(raw []byte, most int) (string, bool) {
	cut := raw[:min(len(raw), most)]
	for range utf8.UTFMax - 1 {
		if len(cut) == len(raw) || utf8.Valid(cut) {
			break
		}
		cut = cut[:len(cut)-1]
	}
	return string(cut), utf8.Valid(cut)
}

// mostRaw is the maximum number of bytes of a dead letter's row in an HTTP answer.
const mostRaw = 16 << 10

func (s *Server) letterGroups(w http.ResponseWriter, r *http.Request) {
	groups, err := s.controller.LetterGroups(r.Context(), r.URL.Query().Get("view"))
	if err != nil {
		s.failed(w, r, err)
		return
	}
	answer(w, http.StatusOK, groupsAnswer{Groups: append([]LetterGroup{}, s.open(groups)...)})
}

// open returns the groups in the form that clients without the token may see. If the server has a token, open removes
// the keys, because keys are values of rows.
func (s *Server) open(groups []LetterGroup) []LetterGroup {
	for i := range groups {
		if s.hasToken {
			groups[i].Keys = nil
		}
	}
	return groups
}

func (s *Server) letter(w http.ResponseWriter, r *http.Request) {
	l, err := s.controller.Letter(r.Context(), r.PathValue("id"))
	if err != nil {
		s.failed(w, r, err)
		return
	}
	answer(w, http.StatusOK, ShowRow(l, mostRaw))
}

func (s *Server) retry(w http.ResponseWriter, r *http.Request) {
	which, ok := selection(w, r)
	if !ok {
		return
	}
	tried, left, err := s.controller.Retry(r.Context(), which)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	answer(w, http.StatusOK, retryAnswer{Tried: tried, Left: left})
}

func (s *Server) drop(w http.ResponseWriter, r *http.Request) {
	which, ok := selection(w, r)
	if !ok {
		return
	}
	n, err := s.controller.Drop(r.Context(), which)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	answer(w, http.StatusOK, dropAnswer{Dropped: n})
}

// selection reads which dead letters a request selects. A request must select letters in exactly one way, so that a
// mistake never selects all letters. Otherwise, selection answers with an error and returns false.
func selection(w http.ResponseWriter, r *http.Request) (which Selection, ok bool) {
	if !read(w, r, &which) {
		return which, false
	}
	ways := 0
	for _, given := range []bool{len(which.IDs) > 0, which.Group != "", which.View != "", which.All} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		fail(w, http.StatusBadRequest, errors.New(
			`select dead letters in exactly one way: {"ids": […]}, {"group": "…"}, {"view": "…"} or {"all": true}`))
	}
	return which, ways == 1
}
