package favorites

import (
	"context"

	"replicator/internal/lab"
)

// Verify compares every view with the rows of the table favorite, using the servers' own clients. No other client may
// write to the table while Verify runs.
func Verify(ctx context.Context, db lab.MySQL, cache lab.Redis) (held int, differences []string, err error) {
	want, err := expected(ctx, db)
	if err != nil {
		return 0, nil, err
	}
	got, err := stored(ctx, db, cache)
	if err != nil {
		return 0, nil, err
	}
	for _, view := range []string{"favorite_counter", "user_favorite", "ranking", "favorite_count",
		"favorited_by", "favorites_of"} {
		held += len(got[view])
		differences = append(differences, lab.Differences(view, want[view], got[view])...)
	}
	return held, differences, nil
}

// expected computes from the source's rows what each view should contain. Counter views have no entry for a sum of 0,
// but the sorted set has a member with score 0.
func expected(ctx context.Context, db lab.MySQL) (map[string]lab.Held, error) {
	const rows, sums = "SELECT object_id, user_id, cnt, timestamp FROM favorite", "SELECT object_id, SUM(cnt) FROM favorite GROUP BY object_id"
	favorites, err := db.Rows(ctx, rows)
	if err != nil {
		return nil, err
	}
	counts, err := db.Rows(ctx, sums)
	if err != nil {
		return nil, err
	}
	counter, ranking, numbers := lab.Held{}, lab.Held{}, lab.Held{}
	for _, r := range counts {
		ranking[r[0]] = r[1]
		if r[1] != "0" {
			counter[r[0]], numbers["favorites:count:"+r[0]] = r[1], r[1]
		}
	}
	lists, by, of := lab.Held{}, lab.Held{}, lab.Held{}
	for _, r := range favorites {
		object, user := r[0], r[1]
		lists[user+" "+object] = r[2] + " " + r[3]
		by["favorites:by:"+object+" "+user] = ""
		of["favorites:of:"+user+" "+object] = ""
	}
	return map[string]lab.Held{"favorite_counter": counter, "user_favorite": lists, "ranking": ranking,
		"favorite_count": numbers,
		"favorited_by":   by, "favorites_of": of}, nil
}

func stored(ctx context.Context, db lab.MySQL, cache lab.Redis) (map[string]lab.Held, error) {
	got := map[string]lab.Held{"favorite_counter": {}, "user_favorite": {}}
	counters, err := db.Rows(ctx, "SELECT object_id, cnt FROM favorite_counter")
	if err != nil {
		return nil, err
	}
	for _, r := range counters {
		got["favorite_counter"][r[0]] = r[1]
	}
	lists, err := db.Rows(ctx, "SELECT user_id, object_id, cnt, timestamp FROM user_favorite")
	if err != nil {
		return nil, err
	}
	for _, r := range lists {
		got["user_favorite"][r[0]+" "+r[1]] = r[2] + " " + r[3]
	}
	if got["ranking"], err = cache.Scores(ctx, "favorites:ranking"); err != nil {
		return nil, err
	}
	if got["favorite_count"], err = cache.Strings(ctx, "favorites:count:*"); err != nil {
		return nil, err
	}
	if got["favorited_by"], err = cache.Sets(ctx, "favorites:by:*"); err != nil {
		return nil, err
	}
	got["favorites_of"], err = cache.Sets(ctx, "favorites:of:*")
	return got, err
}
