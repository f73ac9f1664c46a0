package service

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"iter"
	"regexp"
	"slices"

	"replicator"
	"replicator/server"
)

// mostGroups is the maximum number of groups of dead letters. Letters of further groups are counted together.
const mostGroups = 1000

const mostKeys = 3

// differing matches the parts of a reason that differ between dead letters of one kind: numbers and quoted values.
var differing = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'|0x[0-9a-fA-F]+|[0-9]+`)

// GroupLetter returns the id of a dead letter's group. A group has one view, source, table and kind of reason.
func GroupLetter(l replicator.DeadLetter) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %q %q", l.View, l.Source, l.Cell.Table, differing.ReplaceAllString(l.Reason, "#"))
	return hex.EncodeToString(h.Sum(nil))
}

// GroupLetters groups dead letters by their reason, the largest group first.
func GroupLetters(letters iter.Seq2[replicator.DeadLetter, error]) ([]server.LetterGroup, error) {
	at := map[string]*server.LetterGroup{}
	for l, err := range letters {
		if err != nil {
			return nil, err
		}
		id, reason := GroupLetter(l), l.Reason
		if at[id] == nil && len(at) >= mostGroups {
			id, reason = "", "other reasons"
		}
		g := at[id]
		if g == nil {
			g = &server.LetterGroup{Group: id, View: l.View, Source: l.Source, Table: l.Cell.Table, Reason: reason,
				First: l.Time.UTC(), Example: l.ID}
			at[id] = g
		}
		if key := l.Cell.Key.String(); len(g.Keys) < mostKeys && !slices.Contains(g.Keys, key) {
			g.Keys = append(g.Keys, key)
		}
		g.Letters++
		g.Last = l.Time.UTC()
	}
	groups := []server.LetterGroup{}
	for _, g := range at {
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b server.LetterGroup) int {
		return cmp.Or(cmp.Compare(b.Letters, a.Letters), cmp.Compare(a.View, b.View), cmp.Compare(a.Group, b.Group))
	})
	return groups, nil
}

// LetterGroups groups the dead letters of a view ("" for all views) by their reason.
func (s *Service) LetterGroups(ctx context.Context, view string) ([]server.LetterGroup, error) {
	if err := s.mayHaveLetters(ctx, view); err != nil {
		return nil, err
	}
	return GroupLetters(s.store.List(ctx, view))
}

// Letter returns one dead letter. The error wraps server.ErrUnknown if no letter has that id.
func (s *Service) Letter(ctx context.Context, id string) (replicator.DeadLetter, error) {
	for l, err := range s.store.List(ctx, "") {
		if err != nil || l.ID == id {
			return l, err
		}
	}
	return replicator.DeadLetter{}, fmt.Errorf("dead letter %q: %w", id, server.ErrUnknown)
}
