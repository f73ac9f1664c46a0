package matrix

import (
	_ "embed"
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

func TestMain(m *testing.M) { lab.Main(func() int { return servertest.Run(m) }) }

//go:embed replicator.toml
var config string

// kills is how many times the program is killed while writers work.
const kills = 2

// settings are a server's settings that differ from its defaults.
type settings struct {
	name string
	args []string
}

// allSettings returns a kind's defaults, and settings with the opposite of the defaults: GTIDs on or off, and column
// names in the binlog if the kind supports them.
func allSettings(kind servers.Kind) []settings {
	other := settings{}
	for name, on := range map[string]bool{"with GTIDs": true, "without GTIDs": false} {
		if args := servers.GTIDs(kind, on); args != nil {
			other = settings{name, args}
		}
	}
	if kind != servers.MySQL57 {
		other.name = strings.TrimPrefix(other.name+", full metadata", ", ")
		other.args = append(other.args, "--binlog-row-metadata=FULL")
	}
	return []settings{{name: "defaults"}, other}
}

func TestEveryViewEqualsTheRowsOnEveryServer(t *testing.T) {
	for _, kind := range servers.AllSourceKinds() {
		for n, s := range allSettings(kind) {
			if n > 0 && !slices.Contains(servers.SourceKinds(), kind) && os.Getenv("REPLICATOR_SOAK") == "" {
				continue // package canal's tests cover older releases with every setting
			}
			t.Run(fmt.Sprintf("%s, %s", kind, s.name), func(t *testing.T) {
				t.Parallel()
				scenario(t, kind, s)
			})
		}
	}
}

func scenario(t *testing.T, kind servers.Kind, s settings) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := prepare(t, kind, s.args)
	w.program.Run("check")

	stop := w.write(seed)
	w.program.CatchUp()
	for n := range kills {
		running := w.program.Start()
		lab.Pause(t, time.Duration(200+r.IntN(500))*time.Millisecond)
		for i := range 2 {
			w.alter(2*n + i)
			lab.Pause(t, time.Duration(100+r.IntN(300))*time.Millisecond)
		}
		running.Kill()
	}
	w.alter(2 * kills) // while the program is down
	running := w.program.Start()
	if err := running.Ready(t.Context(), w.listen); err != nil {
		t.Fatal(err)
	}
	w.program.Run("rebuild", "order_rows", "user_rows", "user_hash")
	w.program.Run("verify") // while the writers still write
	running.Kill()
	t.Logf("%d statements written", stop())
	w.program.CatchUp()
	w.verify("after kills and a rebuild")
	w.program.Run("verify")

	w.program.WithNewState().CatchUp()
	w.verify("after the state was lost")
}

// prepare starts the servers, writes the first rows and configures the program.
func prepare(t *testing.T, kind servers.Kind, args []string) *world {
	t.Helper()
	server := servertest.Own(t, kind, args...)
	w := &world{t: t, redis: lab.Redis{Server: servertest.Own(t, servers.Redis7)},
		elastic: lab.Elastic{URL: servertest.Elasticsearch(t)}, index: servertest.Name(), listen: servertest.FreeAddress(t)}
	var dsn string
	w.source, dsn = lab.Prepare(t, server, "matrix", schema)
	var first []string
	for id := range entities {
		first = append(first, fmt.Sprintf("INSERT INTO orders VALUES (%d, 'customer %d é', 'new', %d, 'first-%d')",
			id, id%20, id, id),
			cell(id, "users", 1, fmt.Sprintf(`{"name":"first","email":"%d@example.com"}`, id%60)))
	}
	w.source.Exec(t, first...)
	w.program = lab.Build(t, "MATRIX", strings.ReplaceAll(config, "NAME", w.index), "MATRIX_DSN="+dsn,
		"MATRIX_REDIS="+w.redis.Server.DSN("0"), "MATRIX_ELASTIC="+w.elastic.URL, "MATRIX_INDEX="+w.index,
		"MATRIX_HTTP="+w.listen)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.program.Log(30))
		}
	})
	return w
}

// alter changes the columns of both tables while the writers write. Each n changes them in another way.
func (w *world) alter(n int) {
	w.t.Helper()
	for _, s := range [][]string{
		{"ALTER TABLE orders ADD COLUMN note VARCHAR(20) AFTER id", "ALTER TABLE cell ADD COLUMN host INT NULL FIRST"},
		{"ALTER TABLE orders MODIFY amount BIGINT NOT NULL FIRST, ADD INDEX (customer)"},
		{"ALTER TABLE orders DROP COLUMN note, ADD COLUMN rank_of INT FIRST", "ALTER TABLE cell DROP COLUMN host"},
		{"ALTER TABLE orders CHANGE rank_of position_of VARCHAR(30) CHARACTER SET latin1 AFTER status"},
		{"ALTER TABLE orders DROP COLUMN position_of, MODIFY customer VARCHAR(80) NOT NULL",
			"ALTER TABLE cell ADD COLUMN at TIMESTAMP NULL FIRST, MODIFY body MEDIUMBLOB NOT NULL"},
	}[n] {
		alterTable(w.t, w.source, s)
	}
}

// alterTable alters a table while writers write to it. InnoDB may end an online ALTER with a duplicate entry (1062)
// that only exists while it applies concurrent writes. On a busy machine, every try would fail this way, so the last
// try locks the table.
func alterTable(t *testing.T, source lab.MySQL, statement string) {
	t.Helper()
	locked := "LOCK TABLES " + strings.Fields(statement)[2] + " WRITE;\n" + statement
	for _, try := range []string{statement, statement, statement, locked} {
		_, err := source.Rows(t.Context(), try)
		if err == nil {
			return
		}
		if try == locked || !strings.Contains(err.Error(), "ERROR 1062") {
			t.Fatal(err)
		}
		t.Logf("%s: %v", statement, err)
	}
}
