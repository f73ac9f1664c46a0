package survey_test

import (
	"bytes"
	"compress/zlib"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"replicator"
	"replicator/codec"
	"replicator/config"
	"replicator/internal/servers/servertest"
	"replicator/sinks"
	"replicator/survey"
	"replicator/view"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { servertest.Main(m) }

// stages returns some of the program's codecs.
func stages(t *testing.T) [][]survey.Codec {
	t.Helper()
	var all [][]survey.Codec
	for _, names := range [][]string{{"json", "msgpack", "pickle", "cbor", "zlib+json",
		"zlib+pickle"}, {"gzip+zlib+json"}} {
		var stage []survey.Codec
		for _, name := range names {
			c, err := codec.New(name)
			if err != nil {
				t.Fatal(err)
			}
			stage = append(stage, survey.Codec{Name: name, Decode: c.Document})
		}
		all = append(all, stage)
	}
	return all
}

// parse makes a column from "name type". A ~ stands for a space in the name. The column is NOT NULL unless the text
// ends in NULL, and AUTO_INCREMENT if it contains AUTO.
func parse(text string) survey.Column {
	name, typ, _ := strings.Cut(text, " ")
	typ, null := strings.CutSuffix(typ, " NULL")
	typ, auto := strings.CutSuffix(typ, " AUTO")
	c := survey.Column{Name: strings.ReplaceAll(name, "~", " "), Type: typ, Nullable: null, Auto: auto}
	word := regexp.MustCompile(`^[a-z]+`).FindString(typ)
	c.DataType = word
	if at := strings.IndexByte(typ, '('); at > 0 && word != "decimal" {
		fmt.Sscanf(typ[at:], "(%d)", &c.Length)
	}
	switch word {
	case "char", "varchar", "enum":
		c.Text = true
	case "text", "longtext":
		c.Text, c.Length = true, 65535
	case "blob", "mediumblob":
		c.Length = 65535
	}
	return c
}

// table makes a table without rows. Keys are separated by |, their columns by commas; the first one is primary.
func table(name, keys string, columns ...string) survey.Table {
	t := survey.Table{Name: name, Values: map[string][][]byte{}, TooLong: map[string]int{}}
	for _, c := range columns {
		t.Columns = append(t.Columns, parse(c))
	}
	for i, key := range strings.Split(strings.ReplaceAll(keys, "~", " "), "|") {
		if key == "" {
			continue
		}
		t.Unique = append(t.Unique, strings.Split(key, ","))
		if i == 0 {
			t.Primary = t.Unique[0]
		}
	}
	return t
}

// add adds sampled rows: values in the order of the named columns.
func add(t *survey.Table, columns string, rows ...[]string) {
	for _, row := range rows {
		t.Rows++
		for i, name := range strings.Split(columns, ",") {
			t.Values[name] = append(t.Values[name], []byte(row[i]))
		}
	}
}

func zlibbed(text string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // into memory
	_ = w.Close()
	return b.String()
}

// written returns the configuration that is written for tables.
func written(t *testing.T, tables ...survey.Table) string {
	t.Helper()
	return writtenDB(t, &survey.Database{Tables: tables})
}

func writtenDB(t *testing.T, db *survey.Database) string {
	t.Helper()
	db.DSN, db.Server, db.Name = survey.HidePassword("replicator:secret@tcp(127.0.0.1:3306)/app",
		"DB_PASSWORD"), "127.0.0.1:3306", "app"
	var b strings.Builder
	if err := survey.Write(&b, db, stages(t)); err != nil {
		t.Fatal(err)
	}
	load(t, b.String())
	load(t, uncommented(b.String()))
	return b.String()
}

// setting matches the start of a line that is a disabled setting.
var setting = regexp.MustCompile(`(?m)^#([^ \n])`)

// uncommented returns the configuration with every disabled setting enabled.
func uncommented(text string) string { return setting.ReplaceAllString(text, "$1") }

// load reads a configuration as the program does.
func load(t *testing.T, text string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "replicator.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path, func(name string) (string, bool) { return "secret", true }, sinks.Types())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	_, err = view.Compile(cfg.Views, cfg.Tables, view.Codecs{JSON: codec.JSON,
		Body: func(table string, names []string) (view.Decoder, error) {
			c, err := codec.New(cfg.Table(table).Codec)
			if err != nil {
				return nil, err
			}
			return c.Decoder(names), nil
		}})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg
}

// Whatever names the tables and columns have, the written configuration can be read, also with every setting enabled.
func FuzzNames(f *testing.F) {
	f.Add("cell", "row_key", "users", "email", "address")
	f.Add(`a "b"`, "a b", "x.y\n", "${x}", "=a.b[]")
	f.Add("\\", "{id}", "$", "$$", `"`)
	f.Add("-", "1", " ", "0", "0")
	f.Fuzz(func(t *testing.T, name, key, sort, property, inner string) {
		for _, s := range []string{name, key, sort, property, inner} {
			if !utf8.ValidString(s) || s == "" || strings.ContainsRune(s, 0) || len(s) > 64 {
				t.Skip() // a server can't have such names
			}
		}
		if strings.EqualFold(key, "kind") || strings.EqualFold(key, "body") {
			t.Skip()
		}
		source := table("t", "", "kind varchar(20)", "body json")
		source.Columns = append(source.Columns, survey.Column{Name: key, DataType: "int", Type: "int"})
		source.Name, source.Primary, source.Unique = name, []string{key, "kind"}, [][]string{{key, "kind"}}
		add(&source, "kind,body", []string{sort, "x"}, []string{sort, "y"})
		decode := func(body []byte) (replicator.Object, error) {
			return replicator.ObjectOf(map[string]any{property: string(body),
				inner: replicator.ObjectOf(map[string]any{property: []any{string(body)}})}), nil
		}
		plain := table("t", "", "name varchar(20)")
		plain.Columns = append(plain.Columns, survey.Column{Name: key, DataType: "int", Type: "int"})
		plain.Name, plain.Rows, plain.Primary, plain.Unique = name+"2", 1, []string{key}, [][]string{{key}}
		var b strings.Builder
		db := &survey.Database{DSN: survey.HidePassword("u:p@/app", "DB_PASSWORD"), Name: name,
			Tables: []survey.Table{source, plain}}
		if err := survey.Write(&b, db, [][]survey.Codec{{{Name: "json", Decode: decode}}}); err != nil {
			t.Fatal(err)
		}
		load(t, b.String())
		load(t, uncommented(b.String()))
	})
}

func cells() survey.Table {
	t := table("cell", "added_at|row_key,column_name,ref_key", "added_at bigint AUTO", "row_key binary(16)",
		"column_name varchar(64)", "ref_key bigint",
		"body blob NULL", "created_at datetime NULL")
	for i := range 12 {
		add(&t, "row_key,column_name,ref_key,body", []string{fmt.Sprintf("%016d", i), []string{"users", "profile"}[i%2],
			fmt.Sprint(1700000000000000000 + i),
			[]string{
				fmt.Sprintf(`{"username": "user-%d", "email": "u%d@example.org", "password": "x", "age": %d, "activate": true, "odd name": 1}`, i, i, i),
				fmt.Sprintf(`{"address": {"city": "Köln", "geo": {"lat": 50.%d, "at": {"deep": 1}}}, "tags": ["a", "b"], "visits": [{"at": %d}]}`, i, i),
			}[i%2]})
	}
	return t
}

func entities() survey.Table {
	t := table("entities", "added_id|id", "added_id int AUTO", "id binary(16)",
		"updated timestamp", "body mediumblob NULL")
	for i := range 4 {
		// A dictionary of Python's protocol 0.
		add(&t, "id,body", []string{fmt.Sprintf("%016d", i),
			zlibbed(fmt.Sprintf("(dp0\nVlink\np1\nVhttp://x.org/%d\np2\nsVpublished\np3\nI%d\ns.", i, 1235697046+i))})
	}
	return t
}

func events() survey.Table {
	t := table("account", "event_id|unique_version|entity_id,version|entity_id,command_id", "event_id bigint AUTO",
		"entity_id char(20)", "version bigint",
		"command_id varchar(256)", "command_name varchar(256)", "request json NULL", "response json", "state json",
		"committed_at datetime")
	t.Unique = t.Unique[:1:1]
	t.Unique = append(t.Unique, []string{"entity_id", "command_id"}, []string{"entity_id", "version"})
	for i := range 6 {
		add(&t, "entity_id,version,command_id,request,response,state",
			[]string{fmt.Sprintf("account-%d", i%2), fmt.Sprint(i), fmt.Sprint("c", i), `{"n": 1}`, `{}`,
				fmt.Sprintf(`{"owner": "ann", "email": "e%d@x.org", "balance": %d.5000, "points": 9007199254740993}`, i, i)})
	}
	return t
}

func rows() []survey.Table {
	favorite := table("favorite", "object_id,user_id", "object_id int unsigned", "user_id int unsigned",
		"cnt int unsigned", "timestamp timestamp NULL")
	add(&favorite, "object_id,user_id", []string{"1", "2"}, []string{"1", "3"})
	user := table("user", "id", "id int unsigned AUTO", "email varchar(254) NULL", "password_hash varchar(60)")
	add(&user, "id", []string{"1"})
	return []survey.Table{favorite, user, table("favorite_counter", "object_id",
		"object_id int unsigned", "cnt int unsigned")}
}

func TestTheFourDesignsAreWrittenAsTheGoldenFilesHaveIt(t *testing.T) {
	for name, tables := range map[string][]survey.Table{"cells": {cells()}, "entities": {entities()},
		"events": {events()}, "rows": rows()} {
		t.Run(name, func(t *testing.T) {
			got := written(t, tables...)
			path := filepath.Join("testdata", name+".toml")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("it is not %s; if it is as it should be: go test ./survey -update\n%s", path, got)
			}
		})
	}
}
