package servers

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Kind is a kind of server: a program, and a release series with the same behaviour.
type Kind string

// The kinds of servers that this package can start.
const (
	MySQL       Kind = "mysql"     // MySQL 9
	MySQL80     Kind = "mysql-8.0" // MySQL 8.0.15
	MySQL57     Kind = "mysql-5.7" // MySQL 5.7.22
	MariaDB1011 Kind = "mariadb-10.11"
	MariaDB114  Kind = "mariadb-11.4" // MariaDB 11.4.5
	MariaDB118  Kind = "mariadb-11.8"
	Redis7      Kind = "redis-7"
	Redis8      Kind = "redis-8"
	Valkey      Kind = "valkey" // Valkey 9

	Elasticsearch  Kind = "elasticsearch-8" // Elasticsearch 8.19
	Elasticsearch9 Kind = "elasticsearch-9" // Elasticsearch 9.5
	OpenSearch     Kind = "opensearch-2"    // OpenSearch 2.19
	Kafka          Kind = "kafka-4"         // Kafka 4.3
)

// spec describes a kind. A new kind is a new row of specs.
type spec struct {
	suite    string   // the Debian suite of the server, or of its libraries
	packages []string // the packages to fetch; their libraries are fetched, too
	size     string   // the size of a first download, for the progress message

	server   []string          // the names of the server's program, the preferred one first
	programs []string          // the programs to keep from the packages, besides the server
	aliases  map[string]string // program names of other kinds → this kind's names
	clients  Kind              // the kind whose client programs replace the ones that this kind lacks; "": none
	mariadb  bool              // a server in PATH must say that it is MariaDB
	min      version           // the oldest release that may be used from PATH
	below    version           // the first release that is too new to be used from PATH

	// initialise creates a new data directory. It is nil if the server itself creates it.
	initialise func(ctx context.Context, in *installation, data string, args []string, log string) error
	// fileOptions matches options that change the form of the data files. A server with such an option gets a data
	// directory of its own instead of a copy of the installation's. nil: no option changes the form.
	fileOptions *regexp.Regexp
	// args returns the command line, without the program and the caller's options.
	args func(in *installation, s *Server) []string
	// ping returns nil once the server answers and is the one in s.Dir.
	ping func(ctx context.Context, s *Server) error
	dsn  func(addr, db string) string
	// leftovers are files in Dir that a crash leaves, and that must be removed before the next start.
	leftovers []string

	// Only servers that Debian lacks have the remaining fields.

	artifact  mavenArtifact // the file to download; empty if the server consists of several files
	java      int           // the oldest release of Java that runs the server
	javaBelow int           // the first release of Java that is too new for the server; 0 if none is
	// fetch downloads the server into the installation's directory.
	fetch func(ctx context.Context, in *installation, cache string, log *os.File, say func(string)) error
	// prepare writes the files in Dir that the server reads besides its data, and returns the server's environment. It
	// is called before each start.
	prepare func(ctx context.Context, s *Server) (env []string, err error)
	// serving returns the process that serves, if the started program only launches it. It is called as soon as the
	// server answers.
	serving func(s *Server) (pid int, err error)
	remedy  string
}

var (
	mysqlShapes  = regexp.MustCompile(`^--(lower.case|innodb.(page|data|undo|checksum)|default.table.enc)`)
	mariadbNames = map[string]string{"mysql": "mariadb", "mysqladmin": "mariadb-admin", "mysqlbinlog": "mariadb-binlog",
		"mysqldump": "mariadb-dump"}
	oldMySQLLibraries = []string{"libaio1", "libnuma1", "libstdc++6", "libcrypt1"}
	mysqlSockets      = []string{"mysql.sock", "mysql.sock.lock"}
	mariadbServer     = []string{"mariadb-server", "mariadb-server-core", "mariadb-client", "mariadb-client-core"}
	mariadbTools      = []string{"mariadb", "mariadb-admin", "mariadb-binlog", "mariadb-dump"}
)

var specs = map[Kind]*spec{
	MySQL: {
		suite: "sid", packages: []string{"mysql-server-core", "mysql-client-core"}, size: "65 MB",
		server: []string{"mysqld"}, programs: []string{"mysql", "mysqladmin", "mysqlbinlog", "mysqldump"},
		min: version{8, 0, 30}, below: version{10},
		initialise: initialiseMySQL, fileOptions: mysqlShapes, args: mysqlArgs, ping: pingSQL, dsn: sqlDSN,
		leftovers: mysqlSockets,
	},
	MySQL80: {
		suite: "bookworm", packages: oldMySQLLibraries, size: "20 MB",
		server: []string{"mysqld"}, clients: MySQL, artifact: mysql80Artifact,
		initialise: initialiseMySQL, fileOptions: mysqlShapes, args: mysqlArgs, ping: pingSQL, dsn: sqlDSN,
		leftovers: mysqlSockets, fetch: fetchOldMySQL, remedy: jarRemedy,
	},
	MySQL57: {
		suite: "bookworm", packages: oldMySQLLibraries, size: "20 MB",
		// MySQL 9's clients can't log in, because they lack the authentication method that 5.7 uses by default.
		server: []string{"mysqld"}, clients: MariaDB1011, artifact: mysql57Artifact,
		initialise: initialiseMySQL, fileOptions: mysqlShapes, args: mysqlArgs, ping: pingSQL, dsn: sqlDSN,
		leftovers: mysqlSockets, fetch: fetchOldMySQL, remedy: jarRemedy,
	},
	MariaDB1011: {
		suite: "bookworm", packages: mariadbServer, size: "36 MB",
		server: []string{"mariadbd", "mysqld"}, programs: mariadbTools, aliases: mariadbNames, mariadb: true,
		min: version{10, 11}, below: version{10, 12},
		initialise: initialiseMariaDB, fileOptions: mysqlShapes, args: mariadbArgs, ping: pingSQL, dsn: sqlDSN,
		leftovers: mysqlSockets,
	},
	MariaDB114: {
		suite: "bookworm", packages: []string{"libsystemd0", "libstdc++6", "libcrypt1"}, size: "20 MB",
		server: []string{"mariadbd"}, programs: []string{"mariadb", "mariadb-dump"}, aliases: mariadbNames,
		clients: MariaDB118, artifact: mariadb114Artifact, mariadb: true,
		initialise: initialiseMariaDB, fileOptions: mysqlShapes, args: mariadbArgs, ping: pingSQL, dsn: sqlDSN,
		leftovers: mysqlSockets, fetch: fetchMariaDB, remedy: jarRemedy,
	},
	MariaDB118: {
		suite: "trixie", packages: mariadbServer, size: "38 MB",
		server: []string{"mariadbd", "mysqld"}, programs: mariadbTools, aliases: mariadbNames, mariadb: true,
		min: version{11, 4}, below: version{13},
		initialise: initialiseMariaDB, fileOptions: mysqlShapes, args: mariadbArgs, ping: pingSQL, dsn: sqlDSN,
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
		artifact: elastic8Artifact, java: 17,
		fetch: fetchElastic, prepare: prepareElastic, serving: elasticPID, remedy: elasticRemedy,
	},
	Elasticsearch9: {
		server: []string{"elasticsearch"},
		args:   elasticArgs, ping: pingElastic, dsn: elasticURL, leftovers: []string{"tmp/pid"},
		artifact: elastic9Artifact, java: 21,
		fetch: fetchElastic, prepare: prepareElastic, serving: elasticPID, remedy: elasticRemedy,
	},
	OpenSearch: {
		server: []string{"opensearch"},
		args:   elasticArgs, ping: pingElastic, dsn: elasticURL, leftovers: []string{"tmp/pid"},
		java: 17, javaBelow: 24, // OpenSearch needs a security manager, which later releases lack
		fetch: fetchOpenSearch, prepare: prepareOpenSearch, serving: elasticPID, remedy: openSearchRemedy,
	},
	Kafka: {
		server: []string{"kafka"}, initialise: initialiseKafka,
		args: kafkaArgs, ping: pingKafka, dsn: kafkaAddr, leftovers: []string{"data/.lock"},
		java: 17, fetch: fetchKafka, prepare: prepareKafka, remedy: kafkaRemedy,
	},
}

// Kinds returns every kind, sources first.
func Kinds() []Kind {
	return append(AllSourceKinds(), Redis7, Redis8, Valkey, Elasticsearch, Elasticsearch9, OpenSearch, Kafka)
}

// SourceKinds returns the kinds with a binlog on which every test of a source runs.
func SourceKinds() []Kind { return []Kind{MySQL, MariaDB1011, MariaDB118} }

// AllSourceKinds returns every kind with a binlog: SourceKinds, and the kinds that only `make matrix` tests.
func AllSourceKinds() []Kind {
	return []Kind{MySQL, MySQL80, MySQL57, MariaDB1011, MariaDB114, MariaDB118}
}

// ParseKind returns the kind with this name.
func ParseKind(name string) (Kind, error) {
	if _, ok := specs[Kind(name)]; ok {
		return Kind(name), nil
	}
	var names []string
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return "", fmt.Errorf("servers: unknown kind of server %q. The kinds are %s", name, strings.Join(names, ", "))
}

// IsSQL reports whether servers of the kind speak MySQL's protocol.
func (k Kind) IsSQL() bool { return slices.Contains(AllSourceKinds(), k) }

// IsMariaDB reports whether the kind is a release series of MariaDB.
func (k Kind) IsMariaDB() bool { return k == MariaDB1011 || k == MariaDB114 || k == MariaDB118 }

// IsOldMySQL reports whether the kind is a MySQL before 9, which lacks options and keywords that MySQL 9 has.
func (k Kind) IsOldMySQL() bool { return k == MySQL80 || k == MySQL57 }

// version is a release as numbers, so that versions compare by number: 10.11 is above 10.2.
type version [3]int

var versionNumber = regexp.MustCompile(`\b(\d+)\.(\d+)\.(\d+)`)

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
