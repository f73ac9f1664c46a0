package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/launch"
	"replicator/internal/servers"
)

// contender is a program in one configuration, to be compared with others.
type contender struct {
	name  string
	keeps string // what the program writes to the sink
	ours  bool
	// command writes the program's configuration and returns the command that runs it.
	command func(ctx context.Context, x *contest) (*exec.Cmd, error)
	// count returns how many of the rows are in the sink. It is nil for a program that ends once it has written all
	// rows.
	count func(ctx context.Context, x *contest) (int, error)
	// check describes, for the report, what the sink holds after the task.
	check func(ctx context.Context, x *contest) (string, error)
}

// Names in Redis: the stream that Debezium writes, and a prefix and a key that go-mysql-transfer writes.
const (
	debeziumStream = "dbz." + sourceDatabase + ".cell"
	copyPrefix     = "cell:"
	lastKey        = "last"
)

// everyContender returns all contenders. The first is replicator, with which the others are compared.
func everyContender(o peersOptions) []contender {
	return []contender{
		{name: "replicator", keeps: "hash and index, versions", ours: true,
			command: ours(hashFields + emailView), check: checkHashes((*hashes).verifyIndex)},
		{name: "replicator-hash", keeps: "hash, versions", ours: true,
			command: ours(hashFields), check: checkHashes()},
		{name: "transfer-lua", keeps: "body and index",
			command: transfer(o.transfer, "    lua_file_path: view.lua\n"), count: lastOf, check: checkBodies},
		{name: "transfer-copy", keeps: "a copy of each row",
			command: transfer(o.transfer, "    redis_structure: string\n    redis_key_prefix: '"+copyPrefix+"'\n"),
			count:   keys, check: holds("rows", keys)},
		{name: "debezium", keeps: "a log of changes", command: debezium, count: entries, check: holds("changes", entries)},
	}
}

func contenderNames() (names []string) {
	for _, c := range everyContender(peersOptions{}) {
		names = append(names, c.name)
	}
	return names
}

// contenders returns the contenders that the options name. If they name none, it returns all that can run.
func contenders(o peersOptions) []contender {
	return slices.DeleteFunc(everyContender(o), func(c contender) bool {
		if o.only != nil {
			return !slices.Contains(o.only, c.name)
		}
		return o.transfer == "" && strings.HasPrefix(c.name, "transfer")
	})
}

// hashFields configures a hash view with every property of a body, so it writes as much as a copy of the body.
const hashFields = "[views.users]\nfrom = \"cell.users\"\nsink = \"main\"\nkind = \"hash\"\nkey = \"" + hashPrefix +
	"{row_key}\"\nfields = [\"id\", \"username\", \"email\", \"phone\", \"password\", \"activate\", \"address\", \"bio\"]\n"

// ours returns a function that configures replicator with these views, and returns the command that runs it.
func ours(views string) func(ctx context.Context, x *contest) (*exec.Cmd, error) {
	return func(ctx context.Context, x *contest) (*exec.Cmd, error) {
		if err := x.configure(x.dir, sourceDatabase, "earliest", hashSink(x.sink)+views); err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, x.program, "run", "--until-caught-up", "-c", launch.Program{Dir: x.dir}.File())
		cmd.Dir = x.dir
		return cmd, nil
	}
}

// checkHashes returns a check that compares every hash with the workload, and then runs the other checks.
func checkHashes(others ...func(h *hashes, ctx context.Context, w *workload, n int) (int64, error),
) func(ctx context.Context, x *contest) (string, error) {
	return func(ctx context.Context, x *contest) (string, error) {
		h := &hashes{rdb: x.rdb, want: wholeBody}
		held, err := h.verify(ctx, x.workload, x.cells)
		what := thousands(held) + " hashes"
		for _, other := range others {
			if err == nil {
				held, err = other(h, ctx, x.workload, x.cells)
				what += ", " + thousands(held) + " index entries"
			}
		}
		if err != nil {
			return "", fmt.Errorf("the result is wrong: %w", err)
		}
		return what + ", each as it should be", nil
	}
}

// wholeBody returns the hash that shows all properties of a row's body.
func wholeBody(w *workload, c cell) map[string]string {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(w.appendBody(nil, c), &body); err != nil {
		panic(err) // the workload makes only valid bodies
	}
	hash := map[string]string{}
	for name, value := range body {
		text := string(value)
		if unquoted := ""; json.Unmarshal(value, &unquoted) == nil {
			text = unquoted
		}
		hash[name] = text
	}
	return hash
}

func (x *contest) firstFile(ctx context.Context) (string, error) {
	rows, err := x.sourceDB.QueryContext(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil || !rows.Next() {
		return "", errors.Join(errors.New("the source has no binlog"), err, rows.Err())
	}
	values := make([]any, len(columns))
	for i := range values {
		values[i] = new([]byte)
	}
	return string(*values[0].(*[]byte)), errors.Join(rows.Scan(values...), rows.Close())
}

// transfer returns a function that configures go-mysql-transfer with a rule and returns its command. The log level is
// warn, because go-mysql-transfer otherwise logs every value.
func transfer(program, rule string) func(ctx context.Context, x *contest) (*exec.Cmd, error) {
	return func(ctx context.Context, x *contest) (*exec.Cmd, error) {
		if program == "" {
			return nil, errors.New("name the built program with -go-mysql-transfer")
		}
		file, err := x.firstFile(ctx)
		if err != nil {
			return nil, err
		}
		flavor := "mysql"
		if x.source.Kind.IsMariaDB() {
			flavor = "mariadb"
		}
		text := fmt.Sprintf(transferConfiguration, x.source.Addr(), flavor, x.sink.Addr(), sourceDatabase) + rule
		err = errors.Join(os.Mkdir(x.dir, 0o755),
			os.WriteFile(filepath.Join(x.dir, "app.yml"), []byte(text), 0o600),
			os.WriteFile(filepath.Join(x.dir, "view.lua"), []byte(transferLua), 0o600))
		if err != nil {
			return nil, err
		}
		begin := exec.CommandContext(ctx, program, "-config", "app.yml", "-position", file, "4")
		begin.Dir = x.dir
		if out, err := begin.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", begin, err, launch.LastLines(string(out), 10))
		}
		cmd := exec.CommandContext(ctx, program, "-config", "app.yml")
		cmd.Dir = x.dir
		return cmd, nil
	}
}

const transferConfiguration = `addr: %s
user: peer
pass: peer
charset: utf8mb4
slave_id: 5703
flavor: %s
data_dir: store
logger:
  level: warn
bulk_size: 100
enable_web_admin: false
target: redis
redis_addrs: %s
rule:
  -
    schema: %s
    table: cell
    order_by_column: added_at
    value_encoder: json
`

// transferLua stores each body and an index entry, as replicator does, but keeps no versions. It also stores the
// added_at of the last row, which shows its progress.
const transferLua = `local json = require("json")
local ops = require("redisOps")
local row = ops.rawRow()
local body = json.decode(row["body"])
ops.SET("` + hashPrefix + `" .. row["row_key"], row["body"])
ops.SADD("` + emailPrefix + `" .. body["email"], row["row_key"])
ops.SET("` + lastKey + `", row["added_at"])
`

// debezium configures Debezium Server with its sink for Redis streams, and returns its command.
func debezium(ctx context.Context, x *contest) (*exec.Cmd, error) {
	class, ssl := "io.debezium.connector.mysql.MySqlConnector", "disabled"
	if x.source.Kind.IsMariaDB() {
		class, ssl = "io.debezium.connector.mariadb.MariaDbConnector", "disable"
	}
	text := fmt.Sprintf(debeziumConfiguration, class, x.source.Port, ssl, x.sink.Addr())
	if err := os.MkdirAll(filepath.Join(x.dir, "config"), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(x.dir, "config", "application.properties"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	return servers.Debezium(ctx, x.dir, x.show.say)
}

const debeziumConfiguration = `debezium.source.connector.class=%s
debezium.source.database.hostname=127.0.0.1
debezium.source.database.port=%d
debezium.source.database.user=peer
debezium.source.database.password=peer
debezium.source.database.ssl.mode=%s
debezium.source.driver.allowPublicKeyRetrieval=true
debezium.source.database.server.id=5701
debezium.source.topic.prefix=dbz
debezium.source.database.include.list=` + sourceDatabase + `
debezium.source.table.include.list=` + sourceDatabase + `.cell
debezium.source.snapshot.mode=never
debezium.source.offset.storage=org.apache.kafka.connect.storage.FileOffsetBackingStore
debezium.source.offset.storage.file.filename=offsets.dat
debezium.source.offset.flush.interval.ms=1000
debezium.source.schema.history.internal=io.debezium.storage.file.history.FileSchemaHistory
debezium.source.schema.history.internal.file.filename=history.dat
debezium.sink.type=redis
debezium.sink.redis.address=%s
debezium.format.value=json
debezium.format.key=json
debezium.format.value.schemas.enable=false
debezium.format.key.schemas.enable=false
quarkus.http.host=127.0.0.1
quarkus.http.port=0
quarkus.log.level=WARN
quarkus.log.console.json=false
`

func keys(ctx context.Context, x *contest) (int, error) {
	n, err := x.rdb.DBSize(ctx).Result()
	return int(n), err
}

func entries(ctx context.Context, x *contest) (int, error) {
	n, err := x.rdb.XLen(ctx, debeziumStream).Result()
	return int(n), err
}

// lastOf returns the number of the last row that transferLua wrote. It is also the number of rows, because the
// table's numbers begin at 1 and have no gaps.
func lastOf(ctx context.Context, x *contest) (int, error) {
	text, err := x.rdb.Get(ctx, lastKey).Result()
	if errors.Is(err, goredis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// holds returns a check that describes how many items the sink has.
func holds(what string, count func(context.Context, *contest) (int, error),
) func(ctx context.Context, x *contest) (string, error) {
	return func(ctx context.Context, x *contest) (string, error) {
		n, err := count(ctx, x)
		return fmt.Sprintf("%s %s", thousands(int64(n)), what), err
	}
}

// checkBodies describes how many bodies are not the newest, and how many index entries there are: one for each user
// if no old entries remain. The bodies' keys lack trailing zero bytes, as in the binlog.
func checkBodies(ctx context.Context, x *contest) (string, error) {
	newest := x.workload.present(x.cells)
	old := 0
	err := ranges(0, 1, len(newest), laneBatch, func(from, to int) error {
		cmds, err := x.rdb.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for _, c := range newest[from:to] {
				key := x.workload.key(c.entity)
				p.Get(ctx, hashPrefix+strings.TrimRight(string(key[:]), "\x00"))
			}
			return nil
		})
		if err != nil && !errors.Is(err, goredis.Nil) {
			return err
		}
		for i, cmd := range cmds {
			if cmd.(*goredis.StringCmd).Val() != string(x.workload.appendBody(nil, newest[from+i])) {
				old++
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	indexed, err := (&hashes{rdb: x.rdb}).count(ctx, emailPrefix)
	return fmt.Sprintf("%s of %s bodies out of date; %s index entries for %s entities", thousands(int64(old)),
		thousands(int64(len(newest))), thousands(int64(indexed)), thousands(int64(len(newest)))), err
}
