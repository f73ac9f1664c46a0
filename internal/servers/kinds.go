package servers

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Kind is a sort of server: a program and the release series that behaves alike.
type Kind string

// The kinds that can be started.
const (
	MySQL       Kind = "mysql"         // MySQL 9
	MariaDB1011 Kind = "mariadb-10.11" // MariaDB 10.11
	MariaDB118  Kind = "mariadb-11.8"  // MariaDB 11.8
	Redis7      Kind = "redis-7"       // Redis 7
	Redis8      Kind = "redis-8"       // Redis 8
	Valkey      Kind = "valkey"        // Valkey 9

	Elasticsearch Kind = "elasticsearch-8" // Elasticsearch 8.19
	Kafka         Kind = "kafka-4"         // Kafka 4.3
)

// spec is what the package knows about a kind; a new kind is a new row of specs.
type spec struct {
	suite    string   // the Debian suite that has it
	packages []string // its packages there; libraries come along by themselves
	size     string   // what a first fetch downloads, package list included, for the progress message

	server   []string          // the server's program, the preferred name first
	programs []string          // programs of the packages to keep besides the server
	aliases  map[string]string // names of another kind's programs → the ones here
	mariadb  bool              // what `mysqld --version` of a fitting server in PATH must be
	min      version           // the oldest release in PATH that will do,
	below    version           // and the first that won't

	// initialise makes a new data directory; nil if the server makes it itself.
	initialise func(ctx context.Context, in *installation, data string, args []string, log string) error
	// shapes matches options that shape the data files, so that a copy of the cache's won't do; may be nil.
	shapes *regexp.Regexp
	// args is the command line, without the program and the caller's options.
	args func(in *installation, s *Server) []string
	// ping is nil once the server answers, and is the one in s.Dir.
	ping func(ctx context.Context, s *Server) error
	// dsn is how a client names a database of it.
	dsn func(addr, db string) string
	// leftovers are files in Dir that a crash leaves and that hinder the next start.
	leftovers []string

	// The rest is for servers that Debian doesn't have; nil for the others.

	// fetch makes an installation in dir.
	fetch func(ctx context.Context, cache, dir string, log *os.File, say func(string)) error
	// prepare makes what the server reads in Dir besides its data, before each start, and gives its environment.
	prepare func(ctx context.Context, s *Server) (env []string, err error)
	// serving is the process that serves, where the program started is only its launcher: asked once it answers.
	serving func(s *Server) (pid int, err error)
	// remedy says what to do on a machine that can't have the server.
	remedy string
}

var (
	mysqlShapes  = regexp.MustCompile(`^--(lower.case|innodb.(page|data|undo|checksum)|default.table.enc)`)
	mariadbNames = map[string]string{"mysql": "mariadb", "mysqladmin": "mariadb-admin", "mysqlbinlog": "mariadb-binlog",
		"mysqldump": "mariadb-dump"}
	mysqlSockets  = []string{"mysql.sock", "mysql.sock.lock"}
	mariadbServer = []string{"mariadb-server", "mariadb-server-core", "mariadb-client", "mariadb-client-core"}
	mariadbTools  = []string{"mariadb", "mariadb-admin", "mariadb-binlog", "mariadb-dump"}
)

var specs = map[Kind]*spec{
	MySQL: {
		suite: "sid", packages: []string{"mysql-server-core", "mysql-client-core"}, size: "65 MB",
		server: []string{"mysqld"}, programs: []string{"mysql", "mysqladmin", "mysqlbinlog", "mysqldump"},
		min: version{8, 0, 30}, below: version{10},
		initialise: initialiseMySQL, shapes: mysqlShapes, args: mysqlArgs, ping: pingSQL, dsn: sqlDSN,
		leftovers: mysqlSockets,
	},
	MariaDB1011: {
		suite: "bookworm", packages: mariadbServer, size: "36 MB",
		server: []string{"mariadbd", "mysqld"}, programs: mariadbTools, aliases: mariadbNames, mariadb: true,
		min: version{10, 11}, below: version{10, 12},
		initialise: initialiseMariaDB, shapes: mysqlShapes, args: mariadbArgs, ping: pingSQL, dsn: sqlDSN,
		leftovers: mysqlSockets,
	},
	MariaDB118: {
		suite: "trixie", packages: mariadbServer, size: "38 MB",
		server: []string{"mariadbd", "mysqld"}, programs: mariadbTools, aliases: mariadbNames, mariadb: true,
		min: version{11, 4}, below: version{13},
		initialise: initialiseMariaDB, shapes: mysqlShapes, args: mariadbArgs, ping: pingSQL, dsn: sqlDSN,
		leftovers: mysqlSockets,
	},
	Redis7: {
		suite: "bookworm", packages: []string{"redis-server", "redis-tools"}, size: "19 MB",
		server: []string{"redis-server"}, programs: []string{"redis-cli", "redis-benchmark"},
		min: version{7}, below: version{8},
		args: redisArgs, ping: pingRedis, dsn: redisURL, leftovers: []string{"redis.sock"},
	},
	Redis8: {
		suite: "sid", packages: []string{"redis-server", "redis-tools"}, size: "20 MB",
		server: []string{"redis-server"}, programs: []string{"redis-cli", "redis-benchmark"},
		min: version{8}, below: version{9},
		args: redisArgs, ping: pingRedis, dsn: redisURL, leftovers: []string{"redis.sock"},
	},
	Valkey: {
		suite: "sid", packages: []string{"valkey-server", "valkey-tools"}, size: "20 MB",
		server: []string{"valkey-server"}, programs: []string{"valkey-cli", "valkey-benchmark"},
		aliases: map[string]string{"redis-cli": "valkey-cli", "redis-benchmark": "valkey-benchmark"},
		min:     version{8}, below: version{10},
		args: redisArgs, ping: pingRedis, dsn: redisURL, leftovers: []string{"redis.sock"},
	},
	Elasticsearch: {
		server: []string{"elasticsearch"},
		args:   elasticArgs, ping: pingElastic, dsn: elasticURL, leftovers: []string{"tmp/pid"},
		fetch: fetchElastic, prepare: prepareElastic, serving: elasticPID, remedy: elasticRemedy,
	},
	Kafka: {
		server: []string{"kafka"}, initialise: initialiseKafka,
		args: kafkaArgs, ping: pingKafka, dsn: kafkaAddr, leftovers: []string{"data/.lock"},
		fetch: fetchKafka, prepare: prepareKafka, remedy: kafkaRemedy,
	},
}

// Kinds lists every kind, sources first.
func Kinds() []Kind { return append(SourceKinds(), Redis7, Redis8, Valkey, Elasticsearch, Kafka) }

// SourceKinds lists the kinds that have a binlog.
func SourceKinds() []Kind { return []Kind{MySQL, MariaDB1011, MariaDB118} }

// ParseKind is the kind called name.
func ParseKind(name string) (Kind, error) {
	if _, ok := specs[Kind(name)]; ok {
		return Kind(name), nil
	}
	var names []string
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return "", fmt.Errorf("servers: no kind of server is called %q; there are %s", name, strings.Join(names, ", "))
}

// IsSQL tells whether servers of the kind speak MySQL's protocol.
func (k Kind) IsSQL() bool { return k == MySQL || k.IsMariaDB() }

// IsMariaDB tells whether servers of the kind are MariaDB's.
func (k Kind) IsMariaDB() bool { return k == MariaDB1011 || k == MariaDB118 }

// version is a release as numbers, so that 10.11 sorts after 10.2.
type version [3]int

var versionNumber = regexp.MustCompile(`\b(\d+)\.(\d+)\.(\d+)`)

// parseVersion finds the release in what a server prints for --version.
func parseVersion(text string) (v version, ok bool) {
	m := versionNumber.FindString(text)
	if m == "" {
		return v, false
	}
	_, err := fmt.Sscanf(m, "%d.%d.%d", &v[0], &v[1], &v[2])
	return v, err == nil
}

func (v version) less(o version) bool {
	for i := range v {
		if v[i] != o[i] {
			return v[i] < o[i]
		}
	}
	return false
}

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }
