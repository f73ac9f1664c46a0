package checkpoint

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers/servertest"
)

// format1 returns the contents of the files in testdata/format-1. Keep these files when a later format is added,
// because docs/upgrade.md promises that they stay readable.
func format1(t *testing.T) (checkpoints []replicator.Checkpoint, letter replicator.DeadLetter) {
	t.Helper()
	key, err := replicator.MakeKey([]byte{0, 1, 2, 0xff}, int64(2), "ключ")
	check(t, err)
	return []replicator.Checkpoint{
			{View: "filled", Source: "a", Fingerprint: "f-filled", Standing: replicator.Standing{
				Position: replicator.Position{Order: 7, Token: `{"gtid":"7"}`}, Epoch: 5, Swapped: 3}},
			{View: "filling", Fingerprint: "f-filling", Standing: replicator.Standing{
				Position: replicator.Position{Order: 8, Token: `{"gtid":"8"}`}, FillFrom: 4, Repair: true, Epoch: 6,
				Fill: map[string]replicator.Progress{"cell": {After: "k\x01", Rows: 2, Total: 9}, "done": {Done: true, Rows: 1}}}},
		}, replicator.DeadLetter{ID: "901215c1d43160fb", View: "v", Source: "shard",
			Cell:    replicator.Cell{Table: "cell", Key: key, Column: "users\x00\xff"},
			Version: 1<<62 + 2, Order: 2, Position: "binlog.000001:4", Reason: "email: “x” does not fit",
			Raw: []byte{0, 0xff, '\n', 2}, Time: time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)}
}

// holdsFormat1 checks that a store has the contents that format1 returns.
func holdsFormat1(t *testing.T, s Reader) {
	t.Helper()
	checkpoints, letter := format1(t)
	if got, err := s.Checkpoints(ctx); err != nil || !reflect.DeepEqual(got, checkpoints) {
		t.Errorf("checkpoints are read as\n%+v (%v), want\n%+v", got, err, checkpoints)
	}
	var letters []replicator.DeadLetter
	for l, err := range s.List(ctx, "") {
		check(t, err)
		letters = append(letters, l)
	}
	if !reflect.DeepEqual(letters, []replicator.DeadLetter{letter}) {
		t.Errorf("dead letters are read as\n%+v, want\n%+v", letters, letter)
	}
}

// directory makes a state directory with the files of format 1.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{checkpointsName, lettersName} {
		text, err := os.ReadFile(filepath.Join("testdata", "format-1", name))
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return dir
}

func TestFilesOfFormat1AreReadOn(t *testing.T) {
	dir := directory(t)
	reader, err := ReadFile(dir)
	check(t, err)
	holdsFormat1(t, reader)
	check(t, reader.Close())
	s, err := OpenFile(dir)
	check(t, err)
	holdsFormat1(t, s)
	formerLetterGoes(t, s)
	check(t, s.Close())
}

// formerLetterGoes checks that a letter whose id was made without its source is replaced and raised like any other.
func formerLetterGoes(t *testing.T, s replicator.Store) {
	t.Helper()
	_, letter := format1(t)
	again := letter
	again.Reason = "worse"
	check(t, s.Bury(ctx, []replicator.DeadLetter{again}))
	equalCount(t, s, "v 1")
	check(t, s.Raise(ctx, "v", "other", []replicator.Cell{letter.Cell}))
	equalCount(t, s, "v 1")
	check(t, s.Raise(ctx, "v", letter.Source, []replicator.Cell{letter.Cell}))
	equalCount(t, s, "")
}

func TestFilesOfANewerFormatAreRefused(t *testing.T) {
	for _, name := range []string{checkpointsName, lettersName} {
		dir := directory(t)
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		check(t, err)
		newer := strings.NewReplacer(`"format": 1`, `"format": 2`, `"format":1`, `"format":2`).Replace(string(text))
		check(t, os.WriteFile(path, []byte(newer), 0o600))
		_, err = OpenFile(dir)
		for _, want := range []string{path, "format 2, which a newer version wrote", "Use the newer version"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error is %v, which doesn't say %q", name, err, want)
			}
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != newer {
			t.Errorf("%s was changed: %v", name, err)
		}
	}
}

// The tables are created with the first version's statements, not by today's code.
func TestTablesOfFormat1AreReadOn(t *testing.T) {
	server := servertest.MySQL(t)
	dsn := server.DSN(servertest.Database(t, server))
	admin, err := sql.Open("mysql", dsn)
	check(t, err)
	t.Cleanup(func() { check(t, admin.Close()) })
	checkpoints, l := format1(t)
	for _, ddl := range []string{
		"CREATE TABLE replicator_checkpoints (`view` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, " +
			"source VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, format INT NOT NULL, " +
			"body LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, PRIMARY KEY (`view`, source)) ENGINE=InnoDB",
		"CREATE TABLE replicator_dead_letters (place BIGINT NOT NULL AUTO_INCREMENT, " +
			"id CHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, " +
			"`view` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, " +
			"source VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, " +
			"cell_table VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, cell_key BLOB NOT NULL, " +
			"cell_column BLOB NOT NULL, version BIGINT NOT NULL, row_order BIGINT NOT NULL, " +
			"position TEXT CHARACTER SET utf8mb4 NOT NULL, reason TEXT CHARACTER SET utf8mb4 NOT NULL, " +
			"buried_at DATETIME(6) NOT NULL, raw LONGBLOB NULL, PRIMARY KEY (place), UNIQUE KEY (id)) ENGINE=InnoDB",
	} {
		_, err := admin.Exec(ddl)
		check(t, err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "format-1", checkpointsName))
	check(t, err)
	var stored struct{ Checkpoints []json.RawMessage } // the body of a row is a view's element of the file
	check(t, json.Unmarshal(text, &stored))
	for i, body := range stored.Checkpoints {
		_, err := admin.Exec("INSERT INTO replicator_checkpoints VALUES (?, ?, 1, ?)", checkpoints[i].View,
			checkpoints[i].Source, string(body))
		check(t, err)
	}
	_, err = admin.Exec("INSERT INTO replicator_dead_letters VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "+
		"'2024-05-06 07:08:09.123456', ?)", l.ID, l.View, l.Source, l.Cell.Table, []byte(l.Cell.Key), []byte(l.Cell.Column),
		l.Version, l.Order, l.Position, l.Reason, l.Raw)
	check(t, err)
	reader, err := ReadMySQL(ctx, dsn, "replicator")
	check(t, err)
	holdsFormat1(t, reader)
	check(t, reader.Close())
	s, err := OpenMySQL(ctx, dsn, "replicator")
	check(t, err)
	holdsFormat1(t, s)
	formerLetterGoes(t, s)
	check(t, s.Close())
}
