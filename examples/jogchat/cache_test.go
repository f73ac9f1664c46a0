package jogchat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator/internal/lab"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// cacheSite is the environment of the views of cache.toml: the cells' database and the sinks.
type cacheSite struct {
	t       testing.TB
	source  lab.MySQL
	redis   lab.Redis
	elastic lab.Elastic
	index   string // the prefix of the indexes' names
}

func TestCacheAndSearchEqualTheCellsThroughKillsAndAReplay(t *testing.T) {
	config, err := os.ReadFile("cache.toml")
	if err != nil {
		t.Fatal(err)
	}
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		server := servertest.Own(t, kind)
		db, dsn := prepare(t, server)
		s := &cacheSite{t: t, source: lab.MySQL{Server: server, Database: "jogchat"}, redis: lab.Redis{Server: servertest.Own(t, servers.Redis7)},
			elastic: lab.Elastic{URL: servertest.Elasticsearch(t)}, index: servertest.Name()}
		// The tests share one Elasticsearch, so the views in it need different names.
		own := strings.NewReplacer("_search]", "_search_"+s.index+"]").Replace(string(config))
		p := lab.Build(t, "JOGCHAT_CACHE", own, "JOGCHAT_DSN="+dsn, "JOGCHAT_REDIS="+s.redis.Server.DSN("0"),
			"JOGCHAT_ELASTIC="+s.elastic.URL, "JOGCHAT_INDEX="+s.index)
		p.Run("check")
		p.CatchUp() // before any delete: a sink does not know what was deleted before its views were filled

		stop := write(t, db, seed, 2)
		for range 5 {
			running := p.Start()
			lab.Pause(t, time.Duration(200+r.IntN(900))*time.Millisecond)
			running.Kill()
		}
		stop()
		p.CatchUp()
		s.verify("after the kills")

		fresh := p.WithNewState()
		before, err := s.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		looks := lab.Watch(t, s.look, func(seen lab.Held) error {
			if d := lab.Differences("what readers see", before, seen); len(d) > 0 {
				return errors.New(strings.Join(d, "\n"))
			}
			return nil
		}, func() { t.Logf("replayed in %s", fresh.Replay(s.source.Oldest(t)).Round(time.Millisecond)) })
		t.Logf("looked %d times", looks)
		s.verify("after a replay from the oldest binlog")
	})
}

// look reads values that many cells affect: a ranking, a count, a set, and all documents of users.
func (s *cacheSite) look(ctx context.Context) (lab.Held, error) {
	held, err := s.redis.Scores(ctx, "categories")
	if err != nil {
		return nil, err
	}
	replies, err := s.redis.Do(ctx, "GET category_count:sports", "SCARD users:active:true")
	if err != nil {
		return nil, err
	}
	held["count and set"] = fmt.Sprint(replies)
	documents, err := s.elastic.Documents(ctx, s.index+"-users")
	for id, d := range documents {
		held[id] = canonical(d)
	}
	return held, err
}

// jogchatCell is the newest version of a cell.
type jogchatCell struct {
	key, kind, version string
	body               map[string]any
}

func (s *cacheSite) cells(ctx context.Context) ([]jogchatCell, error) {
	rows, err := s.source.Rows(ctx, `SELECT LOWER(HEX(row_key)), column_name, ref_key, CONVERT(body USING utf8mb4) FROM cell
		JOIN (SELECT row_key, column_name, MAX(ref_key) ref_key FROM cell GROUP BY row_key, column_name) newest USING (row_key, column_name, ref_key)`)
	if err != nil {
		return nil, err
	}
	var cells []jogchatCell
	for _, r := range rows {
		c := jogchatCell{key: r[0], kind: r[1], version: r[2]}
		if c.body, err = object(r[3]); err != nil {
			return nil, err
		}
		cells = append(cells, c)
	}
	return cells, nil
}

func object(text string) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	err := d.Decode(&m)
	return m, err
}

// pick returns an object with some of a cell's properties, added to the members of with.
func (c *jogchatCell) pick(with map[string]any, names ...string) string {
	for _, n := range names {
		if c.body[n] != nil {
			with[n] = c.body[n]
		}
	}
	return canonical(with)
}

func canonical(m map[string]any) string {
	text, err := json.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func dashed(hex string) string {
	return strings.Join([]string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:]}, "-")
}

// expected returns what each view should contain, except for the emails, which claimed computes.
func expected(cells []jogchatCell) map[string]lab.Held {
	want := map[string]lab.Held{}
	for _, view := range []string{"hash", "json", "active", "category", "count", "ranking", "users", "organisations"} {
		want[view] = lab.Held{}
	}
	counts := map[string]int{}
	for _, c := range cells {
		if c.kind == "users" {
			c.expectUser(want)
			continue
		}
		want["organisations"][dashed(c.key)] = c.pick(map[string]any{}, "category", "domain", "name")
		if category, ok := c.body["category"].(string); ok {
			want["category"]["category:"+category+" "+c.key] = ""
			counts[category]++
		}
	}
	for category, n := range counts {
		want["count"]["category_count:"+category] = fmt.Sprint(n)
		want["ranking"][category] = fmt.Sprint(n)
	}
	return want
}

func (c *jogchatCell) expectUser(want map[string]lab.Held) {
	hash := "user:" + c.key + " "
	want["hash"][hash+"version"] = c.version
	for field, name := range map[string]string{"name": "username", "mail": "email", "phone": "phone", "active": "activate"} {
		if v := c.body[name]; v != nil {
			want["hash"][hash+field] = fmt.Sprint(v)
		}
	}
	want["json"]["user_json:"+dashed(c.key)] = c.pick(map[string]any{}, "username", "phone", "activate", "more")
	if active, ok := c.body["activate"].(bool); ok {
		want["active"][fmt.Sprintf("users:active:%v %s", active, c.key)] = ""
		if active {
			want["users"][c.key] = c.pick(map[string]any{"ref_key": json.Number(c.version)}, "username", "email", "phone")
		}
	}
}

func (s *cacheSite) verify(when string) {
	s.t.Helper()
	ctx := s.t.Context()
	cells, err := s.cells(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	want, got := expected(cells), map[string]lab.Held{}
	keep := func(view string, h lab.Held, err error) {
		if err != nil {
			s.t.Fatalf("%s: %v", view, err)
		}
		got[view] = h
	}
	hash, err := s.redis.Hashes(ctx, "user:*")
	keep("hash", hash, err)
	text, err := s.redis.Strings(ctx, "user_json:*")
	for key := range text {
		m, e := object(text[key])
		if text[key] = canonical(m); e != nil {
			err = e
		}
	}
	keep("json", text, err)
	active, err := s.redis.Sets(ctx, "users:active:*")
	keep("active", active, err)
	category, err := s.redis.Sets(ctx, "category:*")
	keep("category", category, err)
	count, err := s.redis.Strings(ctx, "category_count:*")
	keep("count", count, err)
	ranking, err := s.redis.Scores(ctx, "categories")
	keep("ranking", ranking, err)
	emails, err := s.redis.Strings(ctx, "user_by_email:*")
	keep("emails", emails, err)
	for _, index := range []string{"users", "organisations"} {
		documents, err := s.elastic.Documents(ctx, s.index+"-"+index)
		held := lab.Held{}
		for id, d := range documents {
			held[id] = canonical(d)
		}
		keep(index, held, err)
	}
	want["emails"] = claimed(cells, emails)
	held := 0
	var differences []string
	for view := range want {
		held += len(got[view])
		differences = append(differences, lab.Differences(view, want[view], got[view])...)
	}
	if len(differences) > 0 {
		s.t.Fatalf("%s:\n%s", when, strings.Join(differences, "\n"))
	}
	if held == 0 {
		s.t.Fatalf("%s: every view is empty", when)
	}
	s.t.Logf("%s: %d entries, all as the cells say", when, held)
}

// claimed returns the expected content of the unique index. If several users have an email, any of them may own it.
func claimed(cells []jogchatCell, got lab.Held) lab.Held {
	claims := map[string][]string{}
	for _, c := range cells {
		if email, ok := c.body["email"].(string); ok && c.kind == "users" {
			claims["user_by_email:"+email] = append(claims["user_by_email:"+email], c.key)
		}
	}
	want := lab.Held{}
	for key, users := range claims {
		want[key] = users[0]
		if slices.Contains(users, got[key]) {
			want[key] = got[key]
		}
	}
	return want
}
