package server

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"

	"replicator"
)

// Letters is a Controller that shows dead letters.
type Letters interface {
	// LetterGroups sums up the dead letters of a view ("": all) by what is wrong with them.
	LetterGroups(ctx context.Context, view string) ([]LetterGroup, error)

	// Letter is one of them. The error wraps ErrUnknown if there is none of that id.
	Letter(ctx context.Context, id string) (replicator.DeadLetter, error)
}

// LetterGroup are the dead letters of one view and table with one kind of reason.
type LetterGroup struct {
	Group   string    `json:"group"` // names it in a Selection; "" where too many reasons were summed up
	View    string    `json:"view"`
	Source  string    `json:"source,omitempty"`
	Table   string    `json:"table"`
	Reason  string    `json:"reason"` // the example's
	Letters int       `json:"letters"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Example string    `json:"example"`        // the oldest one's id
	Keys    []string  `json:"keys,omitempty"` // of the oldest entities; none where values of rows need a token
}

type groupsAnswer struct {
	Groups []LetterGroup `json:"groups"`
}

// Letter is a dead letter as it is shown, by commands and over HTTP.
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
	Bytes     int       `json:"bytes"`                // of the whole row
	Raw       string    `json:"raw,omitempty"`        // the row, or its beginning, if it is text
	RawBase64 string    `json:"raw_base64,omitempty"` // the same, if it is none
}

// ShowLetter shows a dead letter without its row.
func ShowLetter(l replicator.DeadLetter) Letter {
	return Letter{ID: l.ID, View: l.View, Source: l.Source, Table: l.Cell.Table, Key: l.Cell.Key.String(),
		Column: l.Cell.Column, Version: l.Version, Position: l.Position, Reason: l.Reason,
		Time: l.Time.UTC().Truncate(time.Second), Bytes: len(l.Raw)}
}

// ShowRow shows a dead letter with the first bytes of its row, which may be megabytes.
func ShowRow(l replicator.DeadLetter, most int) Letter {
	shown := ShowLetter(l)
	if text, ok := beginningOf(l.Raw, most); ok {
		shown.Raw = text
	} else {
		shown.RawBase64 = base64.StdEncoding.EncodeToString(l.Raw[:min(len(l.Raw), most)])
	}
	return shown
}

// beginningOf is the beginning of a text, without half a character at its end; false if it is none.
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

// mostRaw bounds what HTTP shows of a dead letter's row.
const mostRaw = 16 << 10

func (s *Server) letterGroups(w http.ResponseWriter, r *http.Request) {
	c, ok := s.controller.(Letters)
	if !ok {
		unsupported(w)
		return
	}
	groups, err := c.LetterGroups(r.Context(), r.URL.Query().Get("view"))
	if err != nil {
		s.failed(w, r, err)
		return
	}
	answer(w, http.StatusOK, groupsAnswer{Groups: append([]LetterGroup{}, s.open(groups)...)})
}

// open are groups as everybody may see them: where there is a token, keys need it, as all values of rows do.
func (s *Server) open(groups []LetterGroup) []LetterGroup {
	for i := range groups {
		if s.hasToken {
			groups[i].Keys = nil
		}
	}
	return groups
}

func (s *Server) letter(w http.ResponseWriter, r *http.Request) {
	c, ok := s.controller.(Letters)
	if !ok {
		unsupported(w)
		return
	}
	l, err := c.Letter(r.Context(), r.PathValue("id"))
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

// selection reads which dead letters are meant. Exactly one way of naming them is taken, so that a slip never means
// all.
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
			`say which dead letters, in one way: {"ids": […]}, {"group": "…"}, {"view": "…"} or {"all": true}`))
	}
	return which, ways == 1
}
