package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/config"
	"replicator/sinks"
	"replicator/sinks/elastic"
	"replicator/sinks/mysql"
	"replicator/sinks/redis"
)

// base is a small valid file that tests append to.
const base = `[source]
dsn = "u:hunter2@tcp(127.0.0.1:3306)/app"
[tables.cell]
key = "row_key"
column = "column_name"
version = "ref_key"
body = "body"
codec = "json"
[tables.pair]
key = ["user_id", "id"]
[sinks.main]
type = "mysql"
dsn = "u:hunter2@tcp(127.0.0.1:3306)/views"
[sinks.cache]
type = "redis"
url = "redis://:hunter2@127.0.0.1:6379/0"
[sinks.search]
type = "elastic"
addresses = ["http://127.0.0.1:9200"]
`

func environment(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

// read loads text as the file f.toml. files has the other files, by path.
func read(text string, vars, files map[string]string) (*config.Config, error) {
	c, _, err := config.Read("f.toml", "/etc/replicator", text, environment(vars), sinks.Types(),
		func(path string) ([]byte, error) {
			if data, ok := files[path]; ok {
				return []byte(data), nil
			}
			return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
		})
	return c, err
}

func mustRead(t *testing.T, text string, vars, files map[string]string) *config.Config {
	t.Helper()
	c, err := read(text, vars, files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestExampleLoadsAndKeepsTheOrderOfTheFile(t *testing.T) {
	c, err := config.Load("../config.example.toml",
		environment(map[string]string{"DB_PASSWORD": "hunter2"}), sinks.Types())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range c.Views {
		names = append(names, v.Name)
	}
	want := "index_users_email users favorite_counter user_cache user_by_email favorite_ranking user_search"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("views are %s, not %s", got, want)
	}
	if got := c.Source.Shards[0].DSN.Reveal(); got != "replicator:hunter2@tcp(127.0.0.1:3306)/jogchat" {
		t.Errorf("dsn is %s", got)
	}
	equal(t, "cell", *c.Table("cell"), replicator.Table{Name: "cell", Database: "jogchat", Table: "cell",
		Key:    []string{"row_key"},
		Column: "column_name", Version: "ref_key", Offset: []string{"added_at"}, Body: "body", Codec: "json"})
	equal(t, "users", *c.View("users"), replicator.View{Name: "users", Sink: "main", Kind: "row", OnChange: "refuse",
		From:     []replicator.Feed{{Table: "cell", Column: "users"}},
		Settings: mysql.Settings{Table: "users", KeyFrom: []replicator.Field{{Name: "id", Path: "$row_key"}}},
		Fields: []replicator.Field{{Name: "username", Path: "username"}, {Name: "email", Path: "email"},
			{Name: "phone", Path: "phone"},
			{Name: "password", Path: "password"}, {Name: "activate", Path: "activate"}}})
	equal(t, "index", *c.View("index_users_email"), replicator.View{Name: "index_users_email", Sink: "main",
		Kind: "index", OnChange: "refuse",
		From: []replicator.Feed{{Table: "cell", Column: "users"}},
		Settings: mysql.Settings{Table: "index_users_email", KeyFrom: []replicator.Field{{Name: "row_key",
			Path: "$row_key"}}}, Fields: []replicator.Field{{Name: "email", Path: "email"}}})
	equal(t, "counter", *c.View("favorite_counter"), replicator.View{Name: "favorite_counter", Sink: "main",
		Kind: "counter", OnChange: "refuse",
		From: []replicator.Feed{{Table: "favorite"}}, Settings: mysql.Settings{Table: "favorite_counter"}, Sum: "cnt",
		Fields: []replicator.Field{{Name: "object_id", Path: "object_id"}, {Name: "cnt", Path: "cnt"}}})
	equal(t, "hash", *c.View("user_cache"), replicator.View{Name: "user_cache", Sink: "cache",
		Kind: "hash", OnChange: "refuse",
		From: []replicator.Feed{{Table: "cell", Column: "users"}, {Table: "cell", Column: "profile"}}, Key: "user:{row_key}",
		Settings: redis.Settings{},
		Fields: []replicator.Field{{Name: "name", Path: "username"}, {Name: "city", Path: "address.city"},
			{Name: "mail", Path: "=lower(email)"}}})
	equal(t, "ranking", *c.View("favorite_ranking"), replicator.View{Name: "favorite_ranking", Sink: "cache",
		Kind: "ranking", OnChange: "refuse",
		From: []replicator.Feed{{Table: "favorite"}}, Key: "most_favorite", Member: "{object_id}", Sum: "cnt",
		Settings: redis.Settings{},
		Fields:   []replicator.Field{{Name: "sum", Path: "cnt"}}})
	equal(t, "document", *c.View("user_search"), replicator.View{Name: "user_search", Sink: "search",
		Kind: "document", OnChange: "refuse",
		From: []replicator.Feed{{Table: "cell", Column: "users"}}, Settings: elastic.Settings{Index: "users"},
		Where:  "activate == true",
		Fields: []replicator.Field{{Name: "username", Path: "username"}, {Name: "email", Path: "email"}}})
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s is\n%s\nnot\n%s", what, g, w)
	}
}

func TestExampleShowsEveryKeyTheLoaderKnows(t *testing.T) {
	data, err := os.ReadFile("../config.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	_, known, err := config.Read("config.example.toml", t.TempDir(),
		string(data)+"\n[views.favorite_counter.join.others]\ntable = \"favorite\"\non = { user_id = \"user_id\" }\n",
		environment(map[string]string{"DB_PASSWORD": "x"}),
		sinks.Types(), os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	// Collect the example's lines by section. The names of views, tables and sinks become *, so [views.a] and [views.b]
	// are both views.*.
	sections := map[string]string{}
	header := regexp.MustCompile(`^#? ?\[([a-z_.]+)\]`)
	at := ""
	for _, line := range strings.Split(string(data), "\n") {
		if m := header.FindStringSubmatch(line); m != nil {
			at = m[1]
			if top, _, named := strings.Cut(at, "."); named && top != "source" {
				at = top + ".*" + strings.TrimPrefix(at[len(top)+1:], strings.Split(at, ".")[1])
				if before, _, join := strings.Cut(at, ".join."); join {
					at = before + ".join.*"
				}
			}
		}
		sections[at] += line + "\n"
	}
	for shape, keys := range known {
		for _, key := range keys {
			if shape == "" || key == "shards" || key == "join" { // headers
				if !strings.Contains(string(data), "["+key) && !strings.Contains(string(data), "."+key+"]") &&
					!strings.Contains(string(data), "."+key+".") {
					t.Errorf("the example has no section %s", key)
				}
				continue
			}
			if !regexp.MustCompile(`(?m)^[ #]*` + key + ` = `).MatchString(sections[shape]) {
				t.Errorf("the example's section %q does not show the key %s", shape, key)
			}
		}
	}
}

func TestDefaultsAreFilledIn(t *testing.T) {
	c := mustRead(t, base, nil, nil)
	equal(t, "checkpoint", c.Checkpoint, config.Checkpoint{Store: "file",
		Path: "/etc/replicator/replicator-state", Interval: time.Second})
	equal(t, "http", c.HTTP, config.HTTP{Listen: "127.0.0.1:9190"})
	equal(t, "limits", c.Limits, config.Limits{Memory: 64 << 20, Deleted: time.Hour})
	if c.Source.Start != "snapshot" || c.Source.OnLost != "stop" || len(c.Source.Shards) != 1 ||
		c.Source.Shards[0].Name != "" {
		t.Errorf("source is %+v", c.Source)
	}
}

func TestFieldsOfAListAreNamedByTheEndOfTheirPath(t *testing.T) {
	c := mustRead(t, base+`
[views.v]
from = "cell"
sink = "main"
kind = "index"
fields = ["email", "address.city", "tags[]", "$added_at", "a.list[]", 'x."odd name"[0]', "lines[].sku"]
`, nil, nil)
	equal(t, "fields", c.Views[0].Fields, []replicator.Field{{Name: "email", Path: "email"},
		{Name: "city", Path: "address.city"},
		{Name: "tags", Path: "tags[]"}, {Name: "added_at", Path: "$added_at"}, {Name: "list", Path: "a.list[]"},
		{Name: "odd name", Path: `x."odd name"[0]`}, {Name: "sku", Path: "lines[].sku"}})
}

func TestColumnValuesMayHoldDots(t *testing.T) {
	c := mustRead(t, base+`
[views.v]
from = ["cell.a.b", "cell.a"]
sink = "cache"
kind = "json"
key = "{row_key:uuid}"
fields = ["x"]
`, nil, nil)
	equal(t, "from", c.Views[0].From, []replicator.Feed{{Table: "cell", Column: "a.b"}, {Table: "cell", Column: "a"}})
}

func TestKeyColumnsAreRenamedInOrder(t *testing.T) {
	c := mustRead(t, base+`
[views.v]
from = "pair"
sink = "main"
kind = "index"
key_column = ["u", "i"]
fields = ["$object"]
[views.w]
from = "pair"
sink = "main"
kind = "row"
key = { i = "id", u = "$user_id" }
fields = ["object"]
[views.n]
from = "pair"
sink = "main"
kind = "counter"
group = { o = "object" }
[views.m]
from = "pair"
sink = "main"
kind = "counter"
group = "object"
sum = { total = "a.amount" }
`, nil, nil)
	equal(t, "key", c.Views[0].Settings.(mysql.Settings).KeyFrom,
		[]replicator.Field{{Name: "u", Path: "$user_id"}, {Name: "i", Path: "$id"}})
	equal(t, "key", c.Views[1].Settings.(mysql.Settings).KeyFrom,
		[]replicator.Field{{Name: "i", Path: "$id"}, {Name: "u", Path: "$user_id"}})
	equal(t, "count", c.Views[2].Fields, []replicator.Field{{Name: "o", Path: "object"}, {Name: "cnt", Path: "=1"}})
	equal(t, "sum", c.Views[3].Fields, []replicator.Field{{Name: "object", Path: "object"},
		{Name: "total", Path: "a.amount"}})
	if c.Views[2].Sum != "" || c.Views[3].Sum != "a.amount" {
		t.Errorf("sums are %q and %q", c.Views[2].Sum, c.Views[3].Sum)
	}
}

// Columns whose names contain characters with a meaning in paths must be quoted in paths.
func TestAKeyOfOddNamesIsNamedInQuotes(t *testing.T) {
	c := mustRead(t, base+`
[tables.odd]
key = ["a.b", 'say "x"']
[views.v]
from = "odd"
sink = "main"
kind = "row"
key = { a = '"a.b"', x = '$"say \"x\""' }
fields = ["c"]
[views.w]
from = "odd"
sink = "cache"
kind = "hash"
key = 'odd:{"a.b"}:{$"say \"x\"":hex}'
fields = ["c"]
[views.x]
from = "odd"
sink = "main"
kind = "index"
fields = ["c"]
`, nil, nil)
	want := []string{"a.b", `say "x"`}
	for _, v := range []*replicator.View{c.Views[0], c.Views[2]} {
		var got []string
		for _, f := range v.Settings.(mysql.Settings).KeyFrom {
			got = append(got, config.ColumnOf(*c.Table("odd"), f.Path))
		}
		equal(t, "key of "+v.Name, got, want)
	}
}

func TestAPathNamesAColumnOrLeadsFurther(t *testing.T) {
	plain, bodies := replicator.Table{}, replicator.Table{Body: "body"}
	for path, want := range map[string]string{"$id": "id", `$"a.b"`: "a.b", `$"say \"x\""`: `say "x"`, "$ö =": "ö =",
		"$a.b": "", "$tags[]": "", "=lower(a)": "", "$": "", `$"a"b`: ""} {
		equal(t, path, config.ColumnOf(plain, path), want)
		equal(t, path+" beside a body", config.ColumnOf(bodies, path), want)
	}
	equal(t, "a name", config.ColumnOf(plain, `"a.b"`), "a.b")
	equal(t, "a property", config.ColumnOf(bodies, `"a.b"`), "")
}

func TestShardsKeepTheirOrderAndDatabases(t *testing.T) {
	c := mustRead(t, `
[source.shards]
b = "u:p@tcp(10.0.0.1:3306)/app0"
a = { dsn_file = "dsn" }
[tables.cell]
key = "id"
[tables.other]
key = "id"
table = "elsewhere.cells"
[sinks.main]
type = "mysql"
[sinks.main.shards]
z = "u:p@tcp(10.0.0.1:3306)/views"
y = "u:p@tcp(10.0.0.2:3306)/views"
[views.v]
from = "cell"
sink = "main"
kind = "index"
fields = ["user_id"]
shard_on = "user_id"
[views.w]
from = "cell"
sink = "main"
kind = "index"
fields = ["user_id"]
`, nil, map[string]string{"/etc/replicator/dsn": "u:hunter2@tcp(10.0.0.2:3306)/app1\n"})
	if s := c.Source.Shards; s[0].Name != "b" || s[1].Name != "a" ||
		s[1].DSN.Reveal() != "u:hunter2@tcp(10.0.0.2:3306)/app1" {
		t.Errorf("shards are %+v", s)
	}
	if s := c.Sinks[0].Settings.(mysql.Connection).Shards; s[0].Name != "z" || s[1].Name != "y" {
		t.Errorf("the sink's shards are %+v", s)
	}
	equal(t, "a sharded view's shards", c.Views[0].Settings.(mysql.Settings).Shards, []string{"z", "y"})
	equal(t, "a view's without shard_on", c.Views[1].Settings.(mysql.Settings).Shards, []string{})
	for i, want := range []string{"app0", "app1"} {
		tables := c.ShardTables(c.Source.Shards[i])
		if tables[0].Database != want || tables[1].Database != "elsewhere" {
			t.Errorf("shard %d has %+v", i, tables)
		}
	}
}

func TestVariablesAreReplacedInDecodedStrings(t *testing.T) {
	vars := map[string]string{"PASSWORD": "p\"\n[sinks.x]\n${HOST}", "EMPTY": "", "TABLE": "cell"}
	c := mustRead(t, `
[source]
dsn = "u:${PASSWORD}@tcp(${HOST:-10.0.0.9}:3306)/${EMPTY:-app}"
[tables.cell]
key = "$row${EMPTY}_key"
table = '${TABLE}'
body = "$${TABLE}"
`, vars, nil)
	if got := c.Source.Shards[0].DSN.Reveal(); got != "u:"+vars["PASSWORD"]+"@tcp(10.0.0.9:3306)/app" {
		t.Errorf("dsn is %q", got)
	}
	equal(t, "table", c.Tables[0], replicator.Table{Name: "cell", Database: "app", Table: "cell",
		Key: []string{"$row_key"}, Body: "${TABLE}", Codec: "json"})
}

func TestSecretsAreNeverShown(t *testing.T) {
	c := mustRead(t, base+"[http]\ntoken = \"hunter2\"\n", nil, nil)
	j, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("loaded", "dsn", c.Source.Shards[0].DSN, "http", c.HTTP)
	for _, shown := range []string{fmt.Sprint(*c), fmt.Sprintf("%+v %#v %q %s", *c, *c, c.HTTP.Token,
		c.Source.Shards[0].DSN), string(j), log.String()} {
		if strings.Contains(shown, "hunter2") {
			t.Errorf("shows a secret: %s", shown)
		}
		if !strings.Contains(shown, "***") {
			t.Errorf("shows nothing at all: %s", shown)
		}
	}
	if c.HTTP.Token.Reveal() != "hunter2" {
		t.Error("Reveal does not give the secret")
	}
}

func TestURLsOfAFileAreOneALine(t *testing.T) {
	c := mustRead(t, strings.Replace(base, `url = "redis://:hunter2@127.0.0.1:6379/0"`,
		"urls_file = \"urls\"\ncluster = true", 1), nil,
		map[string]string{"/etc/replicator/urls": "redis://:a@10.0.0.1:6379\nrediss://:b@10.0.0.2:6379\n"})
	if u := c.Sink("cache").Settings.(redis.Connection).URLs; len(u) != 2 || u[1].Reveal() != "rediss://:b@10.0.0.2:6379" {
		t.Errorf("%d URLs", len(u))
	}
}

func TestMissingFileSaysHowToGetOne(t *testing.T) {
	_, err := config.Load(filepath.Join(t.TempDir(), "none.toml"), os.LookupEnv, sinks.Types())
	if err == nil || !strings.Contains(err.Error(), "replicator init") {
		t.Errorf("error is %v", err)
	}
}

func TestAllProblemsAreReportedInTheOrderOfTheFile(t *testing.T) {
	_, err := read(base+"[http]\nlisten = \"0.0.0.0:80\"\n[limits]\nmemroy = 1\n[views.v]\nform = \"cell\"\n", nil, nil)
	var first *config.Problem
	if !errors.As(err, &first) || first.Key != "http.listen" || first.File != "f.toml" || first.Line != 21 {
		t.Errorf("first problem is %+v", first)
	}
	if n := strings.Count(err.Error(), "f.toml:"); n != 5 { // listen, memroy, sink and kind missing, form
		t.Errorf("%d problems:\n%v", n, err)
	}
}

func FuzzLoad(f *testing.F) {
	example, err := os.ReadFile("../config.example.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	f.Add(base)
	for _, p := range problems() {
		f.Add(base + p.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := read(text, map[string]string{"DB_PASSWORD": "x"}, nil)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v, error %v", c, err)
		}
		if err != nil {
			return
		}
		for _, v := range c.Views {
			if sink := c.Sink(v.Sink); sink == nil || len(v.From) == 0 || c.Table(v.From[0].Table) == nil {
				t.Errorf("view %+v is not complete", v)
			}
		}
	})
}

func TestATokenThatNoClientCanSendIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		token string
		good  bool
	}{
		"one line":      {"s3cret\n", true},
		"blanks":        {"  \n", false},
		"a blank":       {"s3cret \n", false},
		"several lines": {"one\ntwo\n", false},
		"too long":      {strings.Repeat("x", 100_000), false},
	} {
		_, err := read(base+"[http]\ntoken_file = \"token\"", nil, map[string]string{"/etc/replicator/token": c.token})
		if (err == nil) != c.good || err != nil &&
			(!strings.Contains(err.Error(), "http.token_file: can't be sent in an HTTP header") ||
				strings.Contains(err.Error(), "one\ntwo")) {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}
