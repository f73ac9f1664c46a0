package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"replicator"
)

// look is the body of a request to re-read cells.
type look struct {
	Source string     `json:"source,omitempty"`
	Cells  []lookedAt `json:"cells"`
}

// lookedAt is a cell to re-read. Key has the bytes of a replicator.Key.
type lookedAt struct {
	Table  string `json:"table"`
	Key    []byte `json:"key"`
	Column string `json:"column,omitempty"`
}

type lookAnswer struct {
	Cells int `json:"cells"`
}

func (s *Server) look(w http.ResponseWriter, r *http.Request) {
	var asked look
	if !read(w, r, &asked) {
		return
	}
	if asked.Cells == nil {
		fail(w, http.StatusBadRequest, errors.New(`cells are missing. Send {"cells": [{"table": "…", "key": "…"}]}`))
		return
	}
	cells := make([]replicator.Cell, len(asked.Cells))
	for i, l := range asked.Cells {
		cells[i] = replicator.Cell{Table: l.Table, Key: replicator.Key(l.Key), Column: l.Column}
	}
	if err := s.controller.Look(r.Context(), r.PathValue("view"), asked.Source, cells); err != nil {
		s.failed(w, r, err)
		return
	}
	answer(w, http.StatusOK, lookAnswer{Cells: len(cells)})
}

// mostLooked is the maximum number of cells in one request. Even with the longest keys, such a request is below the
// size limit.
const mostLooked = 100

// Look makes the running process re-read cells from a source, and returns once the view has their current rows or dead
// letters. Without cells, it only checks that the process writes the view from that source. In both cases, the process
// also loads the dead letters that other processes have saved.
func (c Client) Look(ctx context.Context, view, source string, cells []replicator.Cell) error {
	for first := true; first || len(cells) > 0; first = false {
		n := min(len(cells), mostLooked)
		asked := look{Source: source, Cells: []lookedAt{}}
		for _, cell := range cells[:n] {
			asked.Cells = append(asked.Cells, lookedAt{cell.Table, []byte(cell.Key), cell.Column})
		}
		path := "/api/v1/views/" + url.PathEscape(view) + "/look"
		if err := c.call(ctx, retryTime, http.MethodPost, path, asked, &lookAnswer{}); err != nil {
			return err
		}
		cells = cells[n:]
	}
	return nil
}
