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

// keptLayouts are the layouts that positions name by their digests. They are kept before any position names them.
type keptLayouts struct {
	store replicator.Layouts // nil: they are in memory alone

	mu    sync.Mutex
	known map[string]*layout
}

// keep keeps layouts durably. One that is not known needs no keeping.
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
			return fmt.Errorf("keeping what columns tables have: %w", err)
		}
	}
	if k.known == nil {
		k.known = map[string]*layout{}
	}
	maps.Copy(k.known, fresh)
	return nil
}

// find is a kept layout; nil where there is none, or where what was kept can't be read.
func (k *keptLayouts) find(ctx context.Context, digest string) (*layout, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.known[digest]; l != nil || k.store == nil {
		return l, nil
	}
	text, err := k.store.Layout(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("reading what columns a table had: %w", err)
	}
	if l, err := parseLayout(text); err == nil && l.digest() == digest {
		return l, nil
	}
	return nil, nil
}

// digestAt is the digest of a layout, and the place where a position knows the table to have it.
type digestAt struct {
	digest string
	order  int64
}

// layoutOf is the layout of a table at the position, or at the first of the later ones whose readers read the table.
// known is false where that one did not know it.
func (t token) layoutOf(table string) (at digestAt, known bool) {
	lowest := int64(math.MaxInt64)
	for _, p := range append([]token{t}, t.others...) {
		file, err := parseFileName(p.File)
		if err != nil { // it was parsed before
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

// latest is the present end of the binlog, with the layouts that the tables have there. All of them are read in one
// transaction, which keeps statements from changing them until the end is known. A table that can't be read has none:
// opening it says why.
func (s *Source) latest(ctx context.Context, conn *sql.Conn, srv server) (t token, err error) {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return t, err
	}
	defer tx.Rollback() // it only read
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
