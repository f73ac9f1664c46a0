package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func eachRow(ctx context.Context, q querier, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func texts(ctx context.Context, q querier, query string, args ...any) (all []string, err error) {
	err = eachRow(ctx, q, func(rows *sql.Rows) error {
		var text string
		err := rows.Scan(&text)
		all = append(all, text)
		return err
	}, query, args...)
	return all, err
}

// eachTexts calls f with each row of a query's result, as n texts. It reuses the slice for the next row.
func eachTexts(ctx context.Context, q querier, n int, f func(texts []sql.NullString), query string, args ...any) error {
	texts, into := make([]sql.NullString, n), make([]any, n)
	for i := range texts {
		into[i] = &texts[i]
	}
	return eachRow(ctx, q, func(rows *sql.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		f(texts)
		return nil
	}, query, args...)
}

// eachBound calls f with each row of a query's result. The values have the types that column.convert returns.
func eachBound(ctx context.Context, q querier, columns []*column, f func(r row), query string) error {
	return eachTexts(ctx, q, len(columns), func(texts []sql.NullString) {
		r := make(row, len(columns))
		for i, c := range columns {
			if texts[i].Valid {
				r[i] = c.asBound(texts[i].String)
			}
		}
		f(r)
	}, query)
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

func (s *Sink) transaction(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return rollback(tx, err)
	}
	return tx.Commit()
}

// rollback rolls the transaction back. It returns err or, if err is nil, the rollback's error.
func rollback(tx *sql.Tx, err error) error {
	if rerr := tx.Rollback(); rerr != nil && !errors.Is(rerr, sql.ErrTxDone) && err == nil {
		return rerr
	}
	return err
}
