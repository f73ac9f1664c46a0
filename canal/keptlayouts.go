package canal

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"sync"

	"replicator"
)

// keptLayouts stores layouts (a table's columns at a log position) by digest, because positions have only the digests.
// A layout is stored before the first position with its digest.
type keptLayouts struct {
	store replicator.Layouts // nil: layouts are only in memory

	mu    sync.Mutex
	known map[string]*layout
}

// keep stores layouts durably. It skips unknown (nil) layouts.
func (k *keptLayouts) keep(ctx context.Context, layouts ...*layout) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	fresh, texts := map[string]*layout{}, map[string]string{}
	for _, l := range layouts {
		if digest := l.digest(); l != nil && k.known[digest] == nil {
			fresh[digest], texts[digest] = l, l.text()
		}
	}
	if k.store != nil && len(fresh) > 0 {
		if err := k.store.KeepLayouts(ctx, texts); err != nil {
			return fmt.Errorf("storing the definitions of the tables' columns: %w", err)
		}
	}
	if k.known == nil {
		k.known = map[string]*layout{}
	}
	maps.Copy(k.known, fresh)
	return nil
}

// find returns a stored layout; nil if there is none, or if it can't be parsed.
func (k *keptLayouts) find(ctx context.Context, digest string) (*layout, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.known[digest]; l != nil || k.store == nil {
		return l, nil
	}
	text, err := k.store.Layout(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("reading the former definition of a table's columns: %w", err)
	}
	if l, err := parseLayout(text); err == nil && l.digest() == digest {
		return l, nil
	}
	return nil, nil
}

// digestAt is a layout's digest, and a log position (as a number) at which the table had this layout.
type digestAt struct {
	digest string
	order  int64
}

// layoutOf returns the digest of the table's layout at the token's position. If the reader that saved this position did
// not watch the table, layoutOf uses the lowest of the other start positions (t.others) that were saved by a reader of
// the table. known is false if the layout there is unknown.
func (t token) layoutOf(table string) (at digestAt, known bool) {
	lowest := int64(math.MaxInt64)
	for _, p := range append([]token{t}, t.others...) {
		file, err := parseFileName(p.File)
		if err != nil { // can't fail: parseToken has checked the name
			continue
		}
		order := orderOf(p.Epoch, file.number, p.Pos)
		digest, read := p.Layouts[table]
		if p.Layouts != nil && !read || order >= lowest {
			continue
		}
		lowest, at = order, digestAt{digest, order}
	}
	return at, at.digest != ""
}

// latest returns the current end of the binlog, with the layout that each table has there. It reads everything in one
// transaction, which blocks changes of the tables' columns until the end is known. A table that can't be read gets no
// layout, because opening the table reports the reason.
func (s *Source) latest(ctx context.Context, conn *sql.Conn, srv server) (t token, err error) {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return t, err
	}
	defer tx.Rollback()
	digests := map[string]string{}
	var found []*layout
	for i := range s.cfg.Tables {
		table := &s.cfg.Tables[i]
		if table.Pattern {
			listed, err := newPattern(*table, srv).list(ctx, tx)
			if err != nil {
				return t, err
			}
			members := &layout{}
			for _, m := range listed {
				members.Members = append(members.Members, idOf(&m))
			}
			found = append(found, members)
			digests[table.Name] = members.digest()
			continue
		}
		shape, err := columnsIn(ctx, tx, table)
		if replicator.IsFatal(err) {
			continue
		}
		if err != nil {
			return t, classify(err)
		}
		found = append(found, shape.layout())
		digests[table.Name] = found[len(found)-1].digest()
	}
	if t, err = srv.latest(ctx, tx); err != nil {
		return t, err
	}
	t.Layouts = digests
	return t, s.layouts.keep(ctx, found...)
}
