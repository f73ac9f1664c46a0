package config_test

import (
	"strings"
	"testing"
)

type problemCase struct {
	name string
	text string // added to base
	want string // a part of the error; %d is the line after base's last
}

func problems() []problemCase {
	view := func(lines ...string) string {
		return "[views.v]\nfrom = \"cell.users\"\n" + strings.Join(lines, "\n") + "\n"
	}
	index := view(`sink = "main"`, `kind = "index"`, `fields = ["a"]`)
	return []problemCase{
		{"unknown key", "[limits]\nmemroy = \"1GiB\"", `f.toml:21: limits.memroy: unknown key; did you mean "memory"?`},
		{"unknown section", "[view.x]\n", `view: unknown key; did you mean "views"?`},
		{"a source table twice", "[tables.again]\ntable = \"app.cell\"\nkey = \"row_key\"",
			`f.toml:21: tables.again.table: [tables.cell] names cell, too`},
		{"a pattern that matches another table", "[tables.some]\ntable = \"c?l*\"\nkey = \"row_key\"",
			`f.toml:21: tables.some.table: [tables.cell] names cell, too`},
		{"a pattern with nothing of the tables in the key", "[tables.some]\ntable = \"x.o*\"\nkey = [\"$table\", \"$database\"]",
			`f.toml:22: tables.some.key: does not name a column of the tables`},
		{"a view of a pattern with joins", "[tables.some]\ntable = \"o*\"\nkey = \"id\"\n[views.v]\nfrom = \"some\"\n" +
			"sink = \"main\"\nkind = \"index\"\nfields = [\"a\"]\n[views.v.join.j]\ntable = \"j\"\non = { id = \"a\" }\n[tables.j]\nkey = \"id\"",
			`[tables.some] stands for several tables (o*), and a view of such a table can't have joins`},
		{"a join with a pattern", "[tables.some]\ntable = \"o*\"\nkey = \"id\"\n[views.v]\nfrom = \"j\"\n" +
			"sink = \"main\"\nkind = \"index\"\nfields = [\"a\"]\n[views.v.join.o]\ntable = \"some\"\non = { id = \"a\" }\n[tables.j]\nkey = \"id\"",
			`[tables.some] stands for several tables (o*), which can't be joined`},
		{"a pattern that is published", "[tables.some]\ntable = \"o*\"\nkey = \"id\"\n[views.v]\nfrom = \"some\"\n" +
			"sink = \"log\"\nkind = \"changelog\"\n[sinks.log]\ntype = \"kafka\"\nbrokers = [\"a:1\"]",
			`f.toml:24: views.v.from: [tables.some] stands for several tables (o*), which can't be published to Kafka`},
		{"wrong type", "[rebuild]\nrate = \"fast\"",
			`f.toml:21: rebuild.rate: expected an integer, such as 1000, and found a string`},
		{"text where a duration stands", "[checkpoint]\ninterval = \"soon\"",
			`checkpoint.interval: expected a duration, such as "500ms"`},
		{"duration out of bounds", "[checkpoint]\ninterval = \"10h\"", `expected a duration from 10ms to 1h, and found 10h`},
		{"too little memory", "[limits]\nmemory = \"10KiB\"", `limits.memory: expected at least 1MiB`},
		{"no size", "[limits]\nmemory = \"lots\"", `expected a size, such as "64MiB"`},
		{"enum", "[checkpoint]\nstore = \"redis\"", `"redis" is not known; did you mean "file"? (known: file, mysql)`},
		{"option of the other store", "[checkpoint]\ntable = \"x\"", `belongs to store = "mysql"`},
		{"mysql store without dsn", "[checkpoint]\nstore = \"mysql\"", `checkpoint: dsn is missing`},
		{"public address without token", "[http]\nlisten = \":9190\"", `need a token. Set token_file`},
		{"no address", "[http]\nlisten = \"9190\"", `is not HOST:PORT`},
		{"syntax", "[http\n", `f.toml:20: `},
		{"value missing", "[http]\nlisten =\n", `f.toml:21: `},
		{"key twice", "[http]\nlisten = \"\"\nlisten = \"\"", `f.toml:22: http.listen: given twice: the first is on line 21`},
		{"section twice", "[http]\n[http]\n", `f.toml:21: http: defined twice: the first is on line 20`},
		{"array of tables", "[[views]]\n", `[[…]] is not used in this file; write [views]`},
		{"variable not set", "[http]\ntoken = \"${NOPE}\"",
			`f.toml:21: http.token: the environment variable NOPE is not set: set it, or write ${NOPE:-default}`},
		{"variable of a dsn not set", "[sinks.s]\ntype = \"mysql\"\ndsn = \"${NOPE}\"",
			`sinks.s.dsn: the environment variable NOPE`},
		{"variable of a list not set", "[tables.t]\nkey = [\"${NOPE}\"]", `tables.t.key[0]: the environment variable NOPE`},
		{"a token that is empty, for other machines", "[http]\nlisten = \"0.0.0.0:9190\"\ntoken = \"\"",
			`requests that change something need a token`},
		{"a shard without an address", "[sinks.s]\ntype = \"mysql\"\nshards = { a = {} }",
			`sinks.s.shards.a: needs dsn or dsn_file`},
		{"variable of a shard not set", "[sinks.s]\ntype = \"mysql\"\nshards = { a = \"${NOPE}\" }",
			`the environment variable NOPE`},
		{"variable not closed", "[http]\ntoken = \"${NOPE\"", `a ${ is not closed`},
		{"variable without a name", "[http]\ntoken = \"${}\"", `${…} needs the name`},
		{"secret and file", "[http]\ntoken = \"a\"\ntoken_file = \"b\"", `http.token_file: token is given as well`},
		{"file missing", "[http]\ntoken_file = \"b\"", `http.token_file: can't be read: open /etc/replicator/b`},
		{"name with a dot", "[tables.\"a.b\"]\nkey = \"id\"", `names are made of letters, digits, _ and -`},
		{"table without key", "[tables.t]\n", `f.toml:20: tables.t: key is missing`},
		{"unknown compression", "[tables.t]\nkey = \"a\"\nbody = \"b\"\ncodec = \"zib+json\"",
			`"zib" is not a known compression; did you mean "zlib"? (known: zlib, gzip, zstd, lz4, snappy)`},
		{"unknown format", "[tables.t]\nkey = \"a\"\nbody = \"b\"\ncodec = \"pickel\"",
			`"pickel" is not a known format; did you mean "pickle"? (known: json, msgpack, pickle, cbor)`},
		{"codec without body", "[tables.t]\nkey = \"a\"\ncodec = \"json\"", `there is no body to decode`},
		{"unknown type of sink", "[sinks.s]\ntype = \"mysq\"", `"mysq" is not a type of sink; did you mean "mysql"?`},
		{"key of another type of sink", "[sinks.s]\ntype = \"redis\"\nurl = \"redis://h\"\ndsn = \"x\"",
			`sinks.s.dsn: does not belong to a redis sink, which has: type, url,`},
		{"dsn without its @", "[sinks.s]\ntype = \"mysql\"\ndsn = \"u:secrettcp(h)/db\"", `f.toml:22: sinks.s.dsn: is not a DSN`},
		{"bad dsn", "[sinks.s]\ntype = \"mysql\"\ndsn = \"u:secret@tcp(h/db\"", `f.toml:22: sinks.s.dsn: is not a DSN`},
		{"dsn without database", "[sinks.s]\ntype = \"mysql\"\ndsn = \"u:secret@tcp(h)/\"", `sinks.s.dsn: names no database`},
		{"bad url", "[sinks.s]\ntype = \"redis\"\nurl = \"h:secret\"", `is not a Redis URL`},
		{"url that does not parse", "[sinks.s]\ntype = \"redis\"\nurl = \"redis://u:secret@h:%zz\"", `is not a URL`},
		{"url with a bad database", "[sinks.s]\ntype = \"redis\"\nurl = \"redis://u:hunter2@h:6379/zero\"",
			`f.toml:22: sinks.s.url: must have /NUMBER, the number of a database, after its host`},
		{"url with a negative database", "[sinks.s]\ntype = \"redis\"\nurl = \"redis://h/-1\"",
			`f.toml:22: sinks.s.url: must have /NUMBER, the number of a database, after its host`},
		{"url with a password in its path", "[sinks.s]\ntype = \"redis\"\nurl = \"redis://:1/hunter2@h:6379/0\"",
			`f.toml:22: sinks.s.url: must have /NUMBER, the number of a database, after its host`},
		{"url with an unknown parameter", "[sinks.s]\ntype = \"redis\"\nurl = \"redis://h:6379?password=hunter2\"",
			`f.toml:22: sinks.s.url: has parameters that are not known`},
		{"url with a bad parameter", "[sinks.s]\ntype = \"redis\"\nurl = \"unix:///run/redis?db=hunter2\"",
			`f.toml:22: sinks.s.url: has parameters that are not known or have wrong values`},
		{"one bad url of several",
			"[sinks.s]\ntype = \"redis\"\ncluster = true\nurls = [\"redis://a\", \"redis://u:hunter2@b/zero\"]",
			`f.toml:23: sinks.s.urls: must have /NUMBER, the number of a database, after its host`},
		{"database of a cluster", "[sinks.s]\ntype = \"redis\"\ncluster = true\nurl = \"redis://:hunter2@h/1\"",
			`f.toml:23: sinks.s.url: names a database by its number, and a cluster has only database 0`},
		{"several urls alone", "[sinks.s]\ntype = \"redis\"\nurls = [\"redis://a\", \"redis://b\"]", `need cluster = true`},
		{"user in an address", "[sinks.s]\ntype = \"elastic\"\naddresses = [\"http://u:secret@h\"]",
			`Set username and password`},
		{"view of an unknown table", strings.Replace(index, `"cell.users"`, `"cel.users"`, 1),
			`there is no [tables.cel]; did you mean "cell"?`},
		{"view of an unknown sink", strings.Replace(index, `"main"`, `"mian"`, 1),
			`there is no [sinks.mian]; did you mean "main"?`},
		{"a sink of a type that is not there", view(`sink = "kafka"`, `kind = "changelog"`),
			`there is no [sinks.kafka]; add a sink with type = "kafka", which views of kind "changelog" need`},
		{"a type in place of a sink", view(`sink = "redis"`, `kind = "hash"`), `there is no [sinks.redis]; did you mean "cache"?`},
		{"an expression without =", view(`sink = "main"`, `kind = "counter"`, `group = ["a"]`, `sum = "quantity * unit_price"`),
			`begins with =. Write { total = "=quantity * unit_price" }`},
		{"a call without =", view(`sink = "main"`, `kind = "index"`, `fields = { a = "lower(email)" }`),
			`begins with =. Write "=lower(email)"`},
		{"kind of another sink", view(`sink = "main"`, `kind = "hash"`),
			`f.toml:23: views.v.kind: a mysql sink has no kind "hash"; did you mean`},
		{"option of another kind", index + `unique = true`,
			`f.toml:25: views.v.unique: does not belong to kind index of a mysql sink, which has: from, sink, kind, where, on_change, join, fields, table`},
		{"option missing", view(`sink = "main"`, `kind = "counter"`),
			`group is missing; say for example group = ["object_id"]`},
		{"a needed key that is misspelt, told of once", "[tables.t]\nkye = \"id\"",
			`f.toml:21: tables.t.kye: unknown key; did you mean "key"?`},
		{"hash without key", view(`sink = "cache"`, `kind = "hash"`, `fields = ["a"]`), `key is missing`},
		{"column of a table without", strings.Replace(index, `"cell.users"`, `"pair.users"`, 1),
			`the table pair has no column role`},
		{"same cells twice", strings.Replace(index, `"cell.users"`, `["cell", "cell.users"]`, 1),
			`feed the view the same cells`},
		{"expression without name", view(`sink = "main"`, `kind = "index"`, `fields = ["=lower(a)"]`),
			`Write { NAME = "=lower(a)" }`},
		{"no path", view(`sink = "main"`, `kind = "index"`, `fields = ["a..b"]`), `"a..b" is not a path`},
		{"a column whose name holds a quote", view(`sink = "main"`, `kind = "index"`, `fields = ["$qu\"ote"]`),
			`"$qu\"ote" is not a path; paths are "email", "address.city", "tags[]", "$column" or "=expression"; ` +
				`if that is one name, write '$"qu\"ote"'`},
		{"a property whose name holds both quotes", view(`sink = "main"`, `kind = "index"`, `fields = ["it's[\"x"]`),
			`if that is one name, write "\"it's[\\\"x\""`},
		{"fields of one name", view(`sink = "main"`, `kind = "index"`, `fields = ["a.City", "b.city"]`),
			`name "city" occurs twice`},
		{"field named as the key", view(`sink = "main"`, `kind = "index"`, `fields = ["row_key"]`),
			`name "row_key" occurs twice`},
		{"row by a property", view(`sink = "main"`, `kind = "row"`, `fields = ["a"]`, `key = { email = "email" }`),
			`"email" is not in the key of the table cell (row_key). The key of a row`},
		{"hash by a property", view(`sink = "cache"`, `kind = "hash"`, `fields = ["a"]`, `key = "u:{email}"`),
			`To find cells by another property, use an index`},
		{"hash by half of the key", strings.Replace(view(`sink = "cache"`, `kind = "json"`, `fields = ["a"]`,
			`key = "u:{id}"`), "cell.users", "pair", 1), `lacks the column "user_id" of the key of the table pair`},
		{"document by a constant", view(`sink = "search"`, `kind = "document"`, `fields = ["a"]`,
			`id = "x"`), `lacks the column "row_key"`},
		{"merge of different keys", strings.Replace(index, `"cell.users"`, `["cell", "pair"]`, 1), `have different keys`},
		{"template not closed", view(`sink = "cache"`, `kind = "index"`, `key = "u:{email"`), `is not closed by }`},
		{"template closes nothing", view(`sink = "cache"`, `kind = "index"`, `key = "{{u}}:{email}}"`), `closes nothing`},
		{"template's format", view(`sink = "cache"`, `kind = "index"`, `key = "u:{email:hax}"`),
			`"hax" is not a template format; did you mean "hex"?`},
		{"two views in one table", index + strings.Replace(index, "[views.v]", "[views.w]\ntable = \"v\"", 1),
			`the view v is kept in the same place`},
		{"two tables whose names differ in case", index + strings.Replace(index, "[views.v]", "[views.w]\ntable = \"V\"", 1),
			`the view v is kept in the same place`},
		{"two sinks with one table", index + "[sinks.two]\ntype = \"mysql\"\ndsn = \"u:p@tcp(127.0.0.1)/views\"\n" +
			strings.Replace(strings.Replace(index, "[views.v]", "[views.w]\ntable = \"views.v\"", 1), `"main"`, `"two"`, 1),
			`the view v is kept in the same place`},
		{"two Redis sinks in one database", "[sinks.two]\ntype = \"redis\"\nurl = \"redis://u:p@127.0.0.1/0\"\n" +
			view(`sink = "cache"`, `kind = "index"`, `key = "u:{email}"`) +
			strings.Replace(view(`sink = "two"`, `kind = "index"`, `key = "u:{email}"`), "[views.v]", "[views.w]", 1),
			`views.w.key: "u:{email}" and the template of the view v, "u:{email}", can make the same key`},
		{"an index by another property",
			view(`sink = "cache"`, `kind = "index"`, `key = "by:{email}"`) +
				strings.Replace(view(`sink = "cache"`, `kind = "index"`, `key = "by:{phone}"`), "[views.v]", "[views.w]", 1),
			`f.toml:29: views.w.key: "by:{phone}" and the template of the view v, "by:{email}", can make the same key`},
		{"a hash of another table", view(`sink = "cache"`, `kind = "hash"`, `fields = ["a"]`, `key = "x:{row_key}"`) +
			"[tables.other]\nkey = \"oid\"\n" +
			"[views.w]\nfrom = \"other\"\nsink = \"cache\"\nkind = \"hash\"\nfields = [\"a\"]\nkey = \"x:{oid}\"\n",
			`views.w.key: "x:{oid}" and the template of the view v, "x:{row_key}", can make the same key`},
		{"a key written otherwise",
			view(`sink = "cache"`, `kind = "counter"`, `key = "j:{id}"`) +
				strings.Replace(view(`sink = "cache"`, `kind = "ranking"`, `key = "j:{$id}"`), "[views.v]", "[views.w]", 1),
			`Begin the two templates with different text, such as "w:{…}"`},
		{"a value that makes another view's key",
			view(`sink = "cache"`, `kind = "hash"`, `fields = ["a"]`, `key = "user:{row_key}"`) +
				strings.Replace(view(`sink = "cache"`, `kind = "index"`, `key = "user:by_email:{email}"`),
					"[views.v]", "[views.w]", 1), `"user:{row_key}", can make the same key`},
		{"a counter that expires", view(`sink = "cache"`, `kind = "counter"`, `key = "n:{email}"`, `expire = "24h"`),
			`f.toml:25: views.v.expire: does not belong to kind counter of a redis sink: a sum holds amounts of many entities`},
		{"a ranking that expires", view(`sink = "cache"`, `kind = "ranking"`, `key = "n"`, `expire = "24h"`),
			`f.toml:25: views.v.expire: does not belong to kind ranking of a redis sink: a sum holds amounts of many entities`},
		{"a unique index that expires",
			view(`sink = "cache"`, `kind = "index"`, `key = "n:{email}"`, `unique = true`, `expire = "24h"`),
			`f.toml:26: views.v.expire: does not belong to an index with unique = true: a value's key shows one of`},
		{"a hash that expires at once",
			view(`sink = "cache"`, `kind = "hash"`, `fields = ["a"]`, `key = "n:{row_key}"`, `expire = "0"`),
			`f.toml:26: views.v.expire: expected a duration from 1s to 87600h, and found 0`},
		{"a MySQL view that expires", index + `expire = "24h"`,
			`views.v.expire: does not belong to kind index of a mysql sink, which has: `},
		{"a key of the Redis sink's own", view(`sink = "cache"`, `kind = "index"`, `key = "replicator:{email}"`),
			`views.v.key: "replicator:{email}" can make keys that begin with "replicator:", as the sink's own keys do`},
		{"a key that begins with a value", view(`sink = "cache"`, `kind = "index"`, `key = "{email}"`),
			`Begin it with other text, such as "v:{…}"`},
		{"a view in the table of another's rebuild",
			index + strings.Replace(index, "[views.v]", "[views.v__rebuild]", 1), `the view v is kept in the same place`},
		{"a view in the table that another's rebuild drops",
			strings.Replace(index, "[views.v]", "[views.v__replaced]", 1) + index, `the view v__replaced is kept in the same place`},
		{"a source table that a rebuild drops", index + "table = \"app.ce\"\n[tables.gone]\ntable = \"ce__replaced\"\nkey = \"id\"",
			`a rebuild of the view would drop app.ce__replaced, which is the source table [tables.gone]`},
		{"two Kafka sinks with one topic", "[sinks.k1]\ntype = \"kafka\"\nbrokers = [\"a:1\", \"b:1\"]\n" +
			"[sinks.k2]\ntype = \"kafka\"\nbrokers = [\"b:1\"]\n" +
			view(`sink = "k1"`, `kind = "changelog"`) + strings.Replace(view(`sink = "k2"`, `kind = "changelog"`, `topic = "v"`),
			"[views.v]", "[views.w]", 1), `the view v is kept in the same place. Give this view another topic`},
		{"a topic of another's marks", view(`sink = "log"`, `kind = "changelog"`) +
			strings.Replace(view(`sink = "log"`, `kind = "changelog"`, `topic = "v.marks"`), "[views.v]", "[views.w]", 1) +
			"[sinks.log]\ntype = \"kafka\"\nbrokers = [\"a:1\"]\n", `the view v is kept in the same place`},
		{"two Elasticsearch sinks with one index",
			"[sinks.two]\ntype = \"elastic\"\naddresses = [\"http://127.0.0.1:9200/\"]\n" +
				view(`sink = "search"`, `kind = "document"`, `fields = ["a"]`) +
				strings.Replace(view(`sink = "two"`, `kind = "document"`, `fields = ["a"]`, `index = "v"`),
					"[views.v]", "[views.w]", 1), `the view v is kept in the same place`},
		{"the program's own table", index + `table = "replicator_state"`,
			`replicator_state is one of the program's own tables`},
		{"view in its own source", index + `table = "app.cell"`, `is the source table [tables.cell]`},
		{"shard_on of no column", index + `shard_on = "b"`, `"b" is not a column of the view; did you mean`},
		{"shard_on of a sum", view(`sink = "main"`, `kind = "counter"`, `group = "a"`,
			`shard_on = "cnt"`), `"cnt" is the sum`},
		{"shard_on of a merged row", strings.Replace(view(`sink = "main"`, `kind = "row"`, `fields = ["a"]`,
			`shard_on = "a"`), `"cell.users"`, `["cell.users", "cell.profile"]`, 1),
			`"a" is not a key column of the view. Several cells contribute to one row`},
		{"shard_on of a row of every cell", strings.Replace(view(`sink = "main"`, `kind = "row"`, `fields = ["a"]`,
			`shard_on = "a"`), `"cell.users"`, `"cell"`, 1),
			`"a" is not a key column of the view`},
		{"two shards in one database",
			"[sinks.s]\ntype = \"mysql\"\n[sinks.s.shards]\na = \"u:p@tcp(h)/db\"\nb = \"u@tcp(h)/db\"",
			`a and b are the same database, db at h:3306`},
		{"one table for two shards",
			"[sinks.s]\ntype = \"mysql\"\n[sinks.s.shards]\na = \"u:p@tcp(h)/a\"\nb = \"u:p@tcp(h)/b\"\n" +
				strings.Replace(view(`sink = "main"`, `kind = "index"`, `fields = ["a"]`, `shard_on = "a"`, `table = "a.v"`),
					`"main"`, `"s"`, 1), `"a.v" is the same table for several shards`},
		{"two sinks with one table in a shard",
			"[sinks.s]\ntype = \"mysql\"\n[sinks.s.shards]\na = \"u:p@tcp(h)/db\"\nb = \"u:p@tcp(127.0.0.1)/views\"\n" +
				index + strings.Replace(strings.Replace(index, "[views.v]", "[views.w]\nshard_on = \"a\"\ntable = \"v\"", 1),
				`"main"`, `"s"`, 1), `the view v is kept in the same place`},
		{"types without create", index + `types = { a = "INT" }`, `has an effect only with create = true`},
		{"types of no column", index + "create = true\ntypes = { a = \"INT\", x = \"INT\" }",
			`"x" is not a column of the view`},
		{"upper case in an index", view(`sink = "search"`, `kind = "document"`, `fields = ["a"]`,
			`index = "Users"`), `Write index = "users"`},
		{"mapping that is no JSON", view(`sink = "search"`, `kind = "document"`, `fields = ["a"]`,
			`mapping_file = "m.json"`), `can't be read`},
		{"key_column of another length", index + `key_column = ["a1", "b1"]`,
			`names 2 columns, but the key of cell has 1: row_key`},
	}
}

func TestProblemsSayWhereWhatAndWhatToDo(t *testing.T) {
	for _, p := range problems() {
		t.Run(p.name, func(t *testing.T) {
			_, err := read(base+p.text, nil, nil)
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), p.want) {
				t.Errorf("error is\n%v\nwithout\n%s", err, p.want)
			}
			if strings.Contains(err.Error(), "secret@") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error shows a secret: %v", err)
			}
			if !strings.HasPrefix(p.name, "syntax") && strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("more than the one problem:\n%v", err)
			}
		})
	}
}
