package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"replicator/internal/pause"
)

// reader polls the keys that always exist, in every view that shows them. The field n grows with each write, so a lower
// n is an older state. The reader records an error if n went back or a key vanished.
type reader struct {
	w *world

	mu     sync.Mutex
	seen   map[string]string // the last number that each view showed for a key, by view and key: see judge
	lost   bool              // a sink may have lost data, so the reader checks nothing more
	wrong  []string
	passes int
}

// forgive makes the reader stop checking for the rest of the run. Faults call it when a sink loses data: batches in
// progress are then written to an empty sink, and the fill that follows repeats older states.
func (r *reader) forgive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = true
}

func (r *reader) run(ctx context.Context) {
	pairs := r.w.plan.pairs()
	for ctx.Err() == nil {
		for _, v := range r.w.plan.Views {
			r.look(ctx, v)
		}
		for _, p := range pairs {
			r.lookTogether(ctx, p)
		}
		r.mu.Lock()
		r.passes++
		r.mu.Unlock()
		if pause.For(ctx, 5*time.Millisecond) != nil {
			return
		}
	}
}

// look reads the keys that always exist from one view and checks each. It gives up if the server doesn't answer.
func (r *reader) look(ctx context.Context, v View) {
	if v.Where || v.Kind != "row" && v.Kind != "hash" && v.Kind != "document" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	t := r.w.plan.table(v.Table)
	for n := range Kept {
		shows, err := r.n(ctx, v, t, n)
		if err != nil {
			return
		}
		r.judge(v.Name+": entity", n, shows)
		if t.Joined && r.lookAtLabel(ctx, v, t, n) != nil {
			return
		}
	}
}

// judge records an error if a view no longer shows a key, or shows a lower number for the key than before.
func (r *reader) judge(of string, n int, shows string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost {
		return
	}
	at := fmt.Sprint(of, " ", n)
	before := r.seen[at]
	switch {
	case before != "" && shows == "":
		r.wrong = append(r.wrong, fmt.Sprintf("%s, which showed %s, is missing at %s", at, before,
			time.Now().Format(time.TimeOnly+".000")))
	case len(shows) == len(before) && shows < before:
		// Strings of equal length compare like the numbers in them.
		r.wrong = append(r.wrong, fmt.Sprintf("%s went back from %s to %s at %s", at, before, shows,
			time.Now().Format(time.TimeOnly+".000")))
	}
	if shows != "" {
		r.seen[at] = shows
	}
}

// n returns the value of column n that a view shows for a key. entity is the number of the key. n returns "" if the
// view does not show the key.
func (r *reader) n(ctx context.Context, v View, t Table, entity int) (string, error) {
	switch v.Sink {
	case "cache":
		values, err := r.w.redis.HGetAll(ctx, r.w.at.prefix+v.Name+":"+t.Key.of(entity)).Result()
		return values["n"], err
	case "main":
		return r.rowN(ctx, v, t, t.Key.values(entity))
	default:
		shown, err := r.w.document(ctx, v, t.Key.of(entity))
		return shown["n"], err
	}
}

// rowN returns a row's value of column n. It returns "" if the row does not exist.
func (r *reader) rowN(ctx context.Context, v View, t Table, key []any) (n string, err error) {
	err = r.row(ctx, v, t, key, "n").Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return n, err
}

// row reads columns of a row from all shards. It uses one statement, because a row may move and is then in two shards
// for a while.
func (r *reader) row(ctx context.Context, v View, t Table, key []any, columns string) *sql.Row {
	where := strings.Join(t.Key.columns(), " = ? AND ") + " = ?"
	var all []string
	var args []any
	for shard := range r.w.sinkDBs {
		all = append(all, fmt.Sprintf("SELECT * FROM %s.%s WHERE %s", r.w.databaseName(shard), v.Name, where))
		args = append(args, key...)
	}
	return r.w.sinkDBs[0].QueryRowContext(ctx, "SELECT "+columns+" FROM ("+strings.Join(all, " UNION ALL ")+
		") shards ORDER BY n DESC LIMIT 1", args...)
}

// note records an error that a fault's own check found.
func (r *reader) note(wrong string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, wrong)
}

// found returns the recorded errors, and how often the reader polled all views.
func (r *reader) found() (wrong []string, passes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrong, r.passes
}
