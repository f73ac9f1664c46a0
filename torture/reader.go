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

// reader polls the entities that always exist in every view that shows them, and notes the steps back. n grows with
// each write, so a lower one is an older state; an entity that was seen may never be missing. Views of one database
// that change together it reads together (together.go).
type reader struct {
	w *world

	mu     sync.Mutex
	seen   map[string]string // the n seen last, by view and key
	lost   bool              // a sink lost data: until it is filled anew it shows what it has
	wrong  []string
	passes int
}

// forgive is told that a sink lost data. Batches that were under way then are written where nothing is left, and the
// fill that follows goes over older places again: nobody who lost everything reads on as if nothing had happened, so
// the reader says no more in this run.
func (r *reader) forgive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = true
}

// run polls until ctx ends.
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

// look reads the entities in one view. A server that doesn't answer says nothing.
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

// judge compares what is shown with what was seen.
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
	case len(shows) == len(before) && shows < before: // all have as many digits
		r.wrong = append(r.wrong, fmt.Sprintf("%s went back from %s to %s at %s", at, before, shows,
			time.Now().Format(time.TimeOnly+".000")))
	}
	if shows != "" {
		r.seen[at] = shows
	}
}

// n is what a view shows of an entity; "" if it shows nothing.
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

// rowN is the n of a row; "" if there is none.
func (r *reader) rowN(ctx context.Context, v View, t Table, key []any) (n string, err error) {
	err = r.row(ctx, v, t, key, "n").Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return n, err
}

// row reads columns of a row, in whatever shard it is. One statement reads all of them, at one moment: a row may move,
// and then is in two of them for a while.
func (r *reader) row(ctx context.Context, v View, t Table, key []any, columns string) *sql.Row {
	where := strings.Join(t.Key.columns(), " = ? AND ") + " = ?"
	var all []string
	var args []any
	for shard := range r.w.sinkDBs {
		all = append(all, fmt.Sprintf("SELECT * FROM %s.%s WHERE %s", r.w.sinkName(shard), v.Name, where))
		args = append(args, key...)
	}
	return r.w.sinkDBs[0].QueryRowContext(ctx, "SELECT "+columns+" FROM ("+strings.Join(all, " UNION ALL ")+
		") shards ORDER BY n DESC LIMIT 1", args...)
}

// note notes what else went wrong.
func (r *reader) note(wrong string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, wrong)
}

// found is what the reader noted.
func (r *reader) found() (wrong []string, passes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrong, r.passes
}
