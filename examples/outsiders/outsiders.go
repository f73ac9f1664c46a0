// Package outsiders contains views of a table that an independent program writes: sysbench's oltp scripts. The test
// runs the scripts on MySQL and MariaDB while it kills and restarts the replicator repeatedly. It also replaces the
// table as gh-ost and pt-online-schema-change do, and compares every view with the rows.
package outsiders

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"replicator/internal/lab"
)

// Config is the replicator's configuration file. It takes the servers' addresses from the environment variables
// OUTSIDERS_DSN and OUTSIDERS_REDIS.
//
//go:embed replicator.toml
var Config string

// Verify compares every view with the rows of sbtest1. It returns the number of entries in the views, and the
// differences.
func Verify(ctx context.Context, db lab.MySQL, cache lab.Redis) (held int, differences []string, err error) {
	rows, err := db.Rows(ctx, "SELECT id, k, c, pad FROM sbtest1")
	if err != nil {
		return 0, nil, err
	}
	want := expected(rows)
	for _, view := range []struct {
		name string
		read func() (lab.Held, error)
	}{
		{"sbtest_copy", lines(ctx, db, "SELECT id, k, c, pad FROM sbtest_copy")},
		{"sbtest_by_k", lines(ctx, db, "SELECT k, id FROM sbtest_by_k")},
		{"sbtest_count", lines(ctx, db, "SELECT k, cnt FROM sbtest_count")},
		{"sbtest_cache", func() (lab.Held, error) { return cache.Hashes(ctx, "sbtest:*") }},
		{"sbtest_cache_by_k", func() (lab.Held, error) { return cache.Sets(ctx, "sbtest_by_k:*") }},
		{"sbtest_ranking", func() (lab.Held, error) { return cache.Scores(ctx, "sbtest_ranking") }},
	} {
		got, err := view.read()
		if err != nil {
			return held, nil, fmt.Errorf("view %s: %w", view.name, err)
		}
		held += len(got)
		differences = append(differences, lab.Differences(view.name, want[view.name], got)...)
	}
	return held, differences, nil
}

func lines(ctx context.Context, db lab.MySQL, query string) func() (lab.Held, error) {
	return func() (lab.Held, error) {
		rows, err := db.Rows(ctx, query)
		return lab.Lines(rows), err
	}
}

// expected returns what each view should contain for rows with id, k, c and pad.
func expected(rows [][]string) map[string]lab.Held {
	cache, byK, ranking := lab.Held{}, lab.Held{}, lab.Held{}
	count, sum := map[string]int{}, map[string]int{}
	var index, counts [][]string
	for _, r := range rows {
		id, k := r[0], r[1]
		for i, field := range []string{"k", "c", "pad"} {
			cache["sbtest:"+id+" "+field] = r[i+1]
		}
		byK["sbtest_by_k:"+k+" "+id] = ""
		index = append(index, []string{k, id})
		n, _ := strconv.Atoi(id) // can't fail: the column is an INT
		count[k], sum[k] = count[k]+1, sum[k]+n
	}
	for k, n := range count {
		counts = append(counts, []string{k, strconv.Itoa(n)})
		ranking[k] = strconv.Itoa(sum[k])
	}
	return map[string]lab.Held{
		"sbtest_copy": lab.Lines(rows), "sbtest_by_k": lab.Lines(index), "sbtest_count": lab.Lines(counts),
		"sbtest_cache": cache, "sbtest_cache_by_k": byK, "sbtest_ranking": ranking,
	}
}
