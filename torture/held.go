package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"replicator/examples/jogchat"
	"replicator/internal/lab"
)

// held reads a view's current content from its sink, with plain queries.
func (w *world) held(ctx context.Context, v View) (lab.Held, error) {
	t := w.plan.table(v.Table)
	switch v.Sink {
	case "main":
		return w.heldMySQL(ctx, v, t)
	case "cache":
		return w.heldRedis(ctx, v)
	default:
		return w.heldElastic(ctx, v)
	}
}

// heldMySQL reads a view's table from every shard. If several shards hold a row, the result contains the row once for
// each shard.
func (w *world) heldMySQL(ctx context.Context, v View, t Table) (lab.Held, error) {
	all := lab.Held{}
	for shard, db := range w.sinkDBs {
		held, err := v.heldIn(ctx, db, t)
		if err != nil {
			return nil, err
		}
		for at, what := range held {
			if _, twice := all[at]; twice {
				at += fmt.Sprint(" once more in shard ", shard)
			}
			all[at] = what
		}
	}
	return all, nil
}

func (v View) heldIn(ctx context.Context, db *sql.DB, t Table) (lab.Held, error) {
	key := t.Key.columns()
	columns := append(slices.Clone(key), "email")
	switch v.Kind {
	case "row":
		columns = append(append(slices.Clone(key), "n", "email", "grp", "amount"), v.more(t)...)
		if v.Merged {
			columns = append(columns, "city")
		}
	case "counter":
		columns = []string{"grp", "amount"}
	}
	got, err := db.QueryContext(ctx, "SELECT "+strings.Join(columns, ", ")+" FROM "+v.Name)
	if err != nil {
		return nil, err
	}
	defer got.Close()
	held := lab.Held{}
	for got.Next() {
		values := make([][]byte, len(columns))
		if err := got.Scan(pointers(values)...); err != nil {
			return nil, err
		}
		switch v.Kind {
		case "row":
			row := fields{}
			for i, name := range columns[len(key):] {
				if value := values[len(key)+i]; value != nil {
					row[name] = string(value)
				}
			}
			held[t.Key.show(values[:len(key)])] = row.text()
		case "index":
			held[string(values[len(key)])+" "+t.Key.show(values[:len(key)])] = ""
		default:
			held[string(values[0])] = string(values[1])
		}
	}
	return held, got.Err()
}

func (w *world) heldRedis(ctx context.Context, v View) (lab.Held, error) {
	begins := w.at.prefix + v.Name
	held := lab.Held{}
	if v.Kind == "ranking" {
		members, err := w.redis.ZRangeWithScores(ctx, begins, 0, -1).Result()
		for _, m := range members {
			held[fmt.Sprint(m.Member)] = strconv.FormatFloat(m.Score, 'f', -1, 64)
		}
		return held, err
	}
	begins += ":"
	keys, err := w.redis.Keys(ctx, begins+"*").Result()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		name := strings.TrimPrefix(key, begins)
		if err := readKey(ctx, w.redis, v, key, name, held); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return held, nil
}

// readKey adds the content of one key to held. If the key no longer exists, it adds nothing.
func readKey(ctx context.Context, r *goredis.Client, v View, key, name string, held lab.Held) error {
	switch v.Kind {
	case "hash":
		values, err := r.HGetAll(ctx, key).Result()
		if len(values) > 0 {
			held[name] = fields(values).text()
		}
		return err
	case "index":
		members, err := r.SMembers(ctx, key).Result()
		for _, m := range members {
			held[name+" "+m] = ""
		}
		return err
	}
	text, err := r.Get(ctx, key).Result()
	if err == goredis.Nil {
		return nil
	}
	if v.Kind == "json" {
		text = decoded([]byte(text)).text()
	}
	held[name] = text
	return err
}

func (w *world) heldElastic(ctx context.Context, v View) (lab.Held, error) {
	index := v.index(w.at.prefix)
	if _, err := w.request(ctx, http.MethodPost, "/"+index+"/_refresh", ""); err != nil {
		return nil, err
	}
	text, err := w.request(ctx, http.MethodPost, "/"+index+"/_search", `{"size": 10000}`)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Hits struct {
			Hits []struct {
				ID     string         `json:"_id"`
				Source map[string]any `json:"_source"`
			}
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&answer); err != nil {
		return nil, err
	}
	held := lab.Held{}
	for _, hit := range answer.Hits.Hits {
		held[hit.ID] = shownFields(hit.Source).text()
	}
	return held, nil
}

func shownFields(source map[string]any) fields {
	all := fields{}
	for name, value := range source {
		if value != nil {
			all[name] = fmt.Sprint(value)
		}
	}
	return all
}

func (w *world) request(ctx context.Context, method, path, body string) ([]byte, error) {
	return request(ctx, method, w.servers.elastic+path, body)
}

func request(ctx context.Context, method, address, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %.300s", method, address, res.Status, text)
	}
	return text, err
}

// compare returns the differences between the views and what the model computes from the source's rows. It returns nil
// if there are none.
func (w *world) compare(ctx context.Context) ([]string, error) {
	var differ []string
	of := map[string][]entity{}
	for _, v := range w.plan.Views {
		t := w.plan.table(v.Table)
		if of[t.Name] == nil {
			var err error
			if of[t.Name], err = w.entities(ctx, t); err != nil {
				return nil, err
			}
		}
		held, err := w.held(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("view %s: %w", v.Name, err)
		}
		differ = append(differ, lab.Differences(v.Name, v.expect(t, of[t.Name]), held)...)
	}
	if w.stream == nil && len(differ) == 0 {
		return w.letters(ctx, of)
	}
	if w.stream != nil {
		report, err := jogchat.Verify(ctx, w.sourceDBs[0], w.sinkDBs[0])
		if err != nil {
			return nil, fmt.Errorf("jogchat: %w", err)
		}
		differ = append(differ, report.Differences...)
	}
	return differ, nil
}
