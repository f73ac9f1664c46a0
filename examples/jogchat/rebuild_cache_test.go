package jogchat_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator/examples/jogchat"
	"replicator/internal/lab"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// TestRebuildsOfCacheAndSearchUnderAWriterAreNeverMissed damages Redis and Elasticsearch by hand, and rebuilds all
// views while writers work. The program is killed once in each fifth of the time that a rebuild takes, in a random
// order. The last fifth includes the moment when an index is swapped in. A reader always finds an entity that exists
// all the time.
func TestRebuildsOfCacheAndSearchUnderAWriterAreNeverMissed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	config, err := os.ReadFile("cache.toml")
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	server := servertest.Own(t, servers.MySQL)
	db, dsn := prepare(t, server)
	s := &cacheSite{t: t, source: lab.MySQL{Server: server, Database: "jogchat"},
		redis:   lab.Redis{Server: servertest.Own(t, servers.Redis7)},
		elastic: lab.Elastic{URL: servertest.Elasticsearch(t)}, index: servertest.Name()}
	address := servertest.FreeAddress(t)
	own := strings.NewReplacer("_search]", "_search_"+s.index+"]", "${JOGCHAT_CACHE_LISTEN:-127.0.0.1:9191}", address,
		"[checkpoint]\n", "[checkpoint]\ninterval = \"100ms\"\n").Replace(string(config))
	p := lab.Build(t, "JOGCHAT_CACHE", own, "JOGCHAT_DSN="+dsn, "JOGCHAT_REDIS="+s.redis.Server.DSN("0"),
		"JOGCHAT_ELASTIC="+s.elastic.URL, "JOGCHAT_INDEX="+s.index)
	w := jogchat.NewWriter(db, seed, 400)
	for range 1000 {
		if err := w.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	anchor(t, db)
	s.source.Exec(t, fmt.Sprintf(`INSERT INTO cell (row_key, column_name, ref_key, body) VALUES (0x%x, 'companies', 1, '{"name": "Anchor", "category": "anchored"}')`, anchorKey))
	p.CatchUp()

	views := []string{"user_cache", "user_json", "user_by_email", "users_by_activity", "by_category",
		"category_count", "category_ranking",
		"user_search_" + s.index, "organisation_search_" + s.index}
	rebuild := append([]string{"rebuild"}, views...)
	stop := write(t, db, seed, 2)
	looks := lab.Watch(t, s.lookAtAnchor, judgeAnchor, func() {
		running := p.Start()
		answers(t, address)
		s.spoil()
		began := time.Now()
		p.Run(rebuild...)
		took := time.Since(began)
		for _, fifth := range r.Perm(5) {
			running.Kill()
			running = p.Start()
			if !strings.Contains(answers(t, address), `"rebuilding"`) { // don't damage what a rebuild has already read
				s.spoil()
			}
			ask(t, address, views)
			lab.Pause(t, time.Duration((float64(fifth)+r.Float64())/5*float64(min(took*5/4, 5*time.Second))))
		}
		running.Kill()
		stop()
		p.Run(rebuild...) // without a running program: completes an interrupted rebuild, then rebuilds the other views
		p.CatchUp()
		t.Logf("one rebuild took %s", took.Round(time.Millisecond))
	})
	if left := s.indexes(); len(left) != 2 {
		t.Errorf("of two views there are the indexes %v", left)
	}
	s.verify(fmt.Sprintf("after 5 killed rebuilds and %d looks at an entity", looks))
	p.Run("verify")
}

// answers waits until the running program reports its status with all views past their start. It returns the status.
func answers(t testing.TB, address string) (status string) {
	t.Helper()
	lab.Await(t, "the program answers", func() bool {
		res, err := http.Get("http://" + address + "/api/v1/status")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		status = string(text)
		return err == nil && res.StatusCode == http.StatusOK && !strings.Contains(status, `"starting"`)
	})
	return status
}

// ask asks the running program for a rebuild, as the command does. A rebuild that is already in progress is not a
// failure.
func ask(t testing.TB, address string, views []string) {
	t.Helper()
	res, err := http.Post("http://"+address+"/api/v1/views/"+strings.Join(views, ",")+"/rebuild", "application/json",
		strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 && res.StatusCode != http.StatusConflict {
		text, _ := io.ReadAll(res.Body)
		t.Fatalf("POST rebuild: %s: %s", res.Status, text)
	}
}

// spoil damages the stored data by hand: it deletes data, changes data, and adds data of entities that never existed.
// It leaves the anchor's data.
func (s *cacheSite) spoil() {
	s.t.Helper()
	ctx := s.t.Context()
	var commands []string
	for _, pattern := range []string{"user:*", "user_json:*"} {
		keys, err := s.redis.Keys(ctx, pattern)
		if err != nil || len(keys) < 10 {
			s.t.Fatalf("KEYS %s: %d, %v", pattern, len(keys), err)
		}
		keys = slices.DeleteFunc(keys, func(k string) bool {
			return strings.HasSuffix(k, hex.EncodeToString(anchorKey)) ||
				strings.HasSuffix(k, dashed(hex.EncodeToString(anchorKey)))
		})
		commands = append(commands, "DEL "+keys[0], "DEL "+keys[1])
		if pattern == "user:*" {
			commands = append(commands, "HSET "+keys[2]+" name spoilt", "HSET "+keys[3]+" mail spoilt")
		} else {
			commands = append(commands, "SET "+keys[2]+` '{"username":"spoilt"}'`)
		}
	}
	ghost := strings.Repeat("ab", 16)
	commands = append(commands, "HSET user:"+ghost+" name ghost", "SET user_json:"+dashed(ghost)+" '{}'",
		"SET user_by_email:ghost@example.com "+ghost,
		"SADD users:active:true "+ghost, "SPOP users:active:false", "SADD category:sports "+ghost,
		"INCRBY category_count:sports 7", "DEL category_count:music", "ZINCRBY categories 7 sports",
		"ZADD categories 3 ghosts")
	if _, err := s.redis.Do(ctx, commands...); err != nil {
		s.t.Fatal(err)
	}
	documents, err := s.elastic.Documents(ctx, s.index+"-users")
	if err != nil || len(documents) < 5 {
		s.t.Fatalf("%d documents, %v", len(documents), err)
	}
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(documents)),
		func(id string) bool { return id == hex.EncodeToString(anchorKey) })
	s.elastic.Exec(s.t, "DELETE", "/"+s.index+"-users/_doc/"+ids[0], "")
	s.elastic.Exec(s.t, "POST", "/"+s.index+"-users/_update/"+ids[1]+"?retry_on_conflict=50",
		`{"doc": {"username": "spoilt"}}`)
	s.elastic.Exec(s.t, "PUT", "/"+s.index+"-users/_doc/"+ghost, `{"username": "ghost"}`)
}

// lookAtAnchor reads the anchor's data in every way that applications would, from Redis and by searches.
func (s *cacheSite) lookAtAnchor(ctx context.Context) (lab.Held, error) {
	key := hex.EncodeToString(anchorKey)
	replies, err := s.redis.Do(ctx, "HGET user:"+key+" name", "EXISTS user_json:"+dashed(key),
		"GET user_by_email:anchor@example.com",
		"SISMEMBER users:active:true "+key, "SISMEMBER category:anchored "+key, "GET category_count:anchored",
		"ZSCORE categories anchored")
	if err != nil {
		return nil, err
	}
	held := lab.Held{"in Redis": fmt.Sprint(replies)}
	for _, index := range []string{"users", "organisations"} {
		n, err := s.elastic.Count(ctx, s.index+"-"+index, "username:anchor OR name:Anchor")
		if err != nil {
			return nil, err
		}
		held["in "+index] = fmt.Sprint(n)
	}
	return held, nil
}

func judgeAnchor(seen lab.Held) error {
	key := hex.EncodeToString(anchorKey)
	want := lab.Held{"in Redis": fmt.Sprint([]any{"anchor", 1, key, 1, 1, "1", 1}), "in users": "1",
		"in organisations": "1"}
	if d := lab.Differences("the anchor", want, seen); len(d) > 0 {
		return errors.New(strings.Join(d, "\n"))
	}
	return nil
}

// indexes returns the names of the indexes that belong to the views, whether an alias shows them or not.
func (s *cacheSite) indexes() []string {
	s.t.Helper()
	names, err := s.elastic.Indexes(s.t.Context(), s.index+"-*")
	if err != nil {
		s.t.Fatal(err)
	}
	return names
}
