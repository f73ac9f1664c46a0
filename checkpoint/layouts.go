package checkpoint

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mostLayouts is the maximum number of stored table layouts (the columns that tables had earlier). The oldest layouts
// are dropped first. Saving a layout that is already stored doesn't change its age.
const mostLayouts = 10_000

type keptLayout struct {
	Digest string `json:"digest"`
	Layout string `json:"layout"`
}

// layoutsDocument is the content of layouts.json, with the newest layout last.
type layoutsDocument struct {
	Format  int          `json:"format"`
	Layouts []keptLayout `json:"layouts"`
}

// readLayouts reads the table layouts in layouts.json. Unreadable layouts count as missing: rows of their tables may
// then be skipped, and the views are compared with their source.
func readLayouts(dir string) ([]keptLayout, error) {
	data, err := os.ReadFile(filepath.Join(dir, layoutsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	var d layoutsDocument
	if err := json.Unmarshal(data, &d); err != nil || d.Format != format {
		return nil, nil
	}
	return d.Layouts, nil
}

func (f *File) KeepLayouts(_ context.Context, layouts map[string]string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	all := slices.Clone(f.layouts)
	for _, digest := range slices.Sorted(maps.Keys(layouts)) {
		if f.layout(digest) == "" {
			all = append(all, keptLayout{digest, layouts[digest]})
		}
	}
	if len(all) == len(f.layouts) {
		return nil
	}
	all = all[max(len(all)-mostLayouts, 0):]
	data, err := json.MarshalIndent(layoutsDocument{Format: format, Layouts: all}, "", "  ")
	if err == nil {
		err = f.holds()
	}
	if err == nil {
		err = replaceFile(filepath.Join(f.dir, layoutsName), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("checkpoint: saving the tables' columns: %w", err)
	}
	f.layouts = all
	return nil
}

func (f *File) Layout(_ context.Context, digest string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.layout(digest), nil
}

// layout returns the stored layout with a digest; "" if there is none. The caller holds mu.
func (f *File) layout(digest string) string {
	for _, l := range f.layouts {
		if l.Digest == digest {
			return l.Layout
		}
	}
	return ""
}

func (s *MySQL) KeepLayouts(ctx context.Context, layouts map[string]string) error {
	if len(layouts) == 0 {
		return nil
	}
	return s.transact(ctx, "saving the tables' columns", func(ctx context.Context, tx *sql.Tx) error {
		added := int64(0)
		for _, some := range together(slices.Sorted(maps.Keys(layouts)), layouts) {
			var args []any
			for _, digest := range some {
				args = append(args, digest, layouts[digest])
			}
			result, err := tx.ExecContext(ctx, "INSERT IGNORE INTO "+s.tables.layouts+" (digest, layout) VALUES (?, ?)"+
				strings.Repeat(", (?, ?)", len(some)-1), args...)
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			added += n
		}
		if added == 0 {
			return nil
		}
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+s.tables.layouts).Scan(&n); err != nil || n <= mostLayouts {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s ORDER BY place LIMIT %d", s.tables.layouts, n-mostLayouts))
		return err
	}, func() {})
}

// The limits of one INSERT: the number of layouts and their bytes. A server accepts statements of 4 MiB by default.
const (
	layoutsTogether = 500
	bytesTogether   = 1 << 20
)

func together(digests []string, layouts map[string]string) (all [][]string) {
	bytes := 0
	for _, digest := range digests {
		size := len(digest) + len(layouts[digest])
		last := len(all) - 1
		if last < 0 || len(all[last]) == layoutsTogether || bytes+size > bytesTogether {
			all, bytes = append(all, nil), 0
			last++
		}
		all[last] = append(all[last], digest)
		bytes += size
	}
	return all
}

func (s *MySQL) Layout(ctx context.Context, digest string) (layout string, err error) {
	err = s.do(ctx, "reading a table's former columns", func(ctx context.Context, conn *sql.Conn) error {
		err := conn.QueryRowContext(ctx, "SELECT layout FROM "+s.tables.layouts+" WHERE digest = ?", digest).Scan(&layout)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return layout, err
}
