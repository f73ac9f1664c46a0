package servertest_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func TestSharedIsOneServerWithDatabasesOfEachTest(t *testing.T) {
	s := servertest.Shared(t, servers.MariaDB1011)
	var first string
	t.Run("a", func(t *testing.T) { first = servertest.Database(t, s) })
	t.Run("b", func(t *testing.T) {
		same := servertest.Shared(t, servers.MariaDB1011)
		if same != s {
			t.Error("a second server was started")
		}
		name := servertest.Database(t, s)
		if name == first {
			t.Error("two tests share a database")
		}
		db, err := sql.Open("mysql", s.DSN(name))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var n int
		err = db.QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?", first).Scan(&n)
		if err != nil || n != 0 {
			t.Errorf("the first test's database is still there (%d, %v)", n, err)
		}
	})
}

// All test binaries that a lender's command runs share one server. This binary runs itself twice.
func TestALenderHasOneServerForAllBinaries(t *testing.T) {
	const variable = "SERVERTEST_BORROWED"
	if path := os.Getenv(variable); path != "" {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := fmt.Fprintln(f, servertest.Kafka(t)); err != nil {
			t.Fatal(err)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "addresses")
	t.Setenv(variable, path)
	lender, err := servertest.NewLender()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := lender.Run(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$"); err != nil {
			t.Error(err)
		}
	}
	if err := lender.Close(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(text))
	if len(got) != 2 || got[0] != got[1] {
		t.Fatalf("the binaries had %q", got)
	}
	if conn, err := net.Dial("tcp", got[0]); err == nil {
		conn.Close()
		t.Error("the server outlived its lender")
	}
}

func TestSelectedKindsLimitARunUnlessServersAreRequired(t *testing.T) {
	t.Setenv("REPLICATOR_TEST_SERVERS", "mysql")
	for _, required := range []string{"0", "1"} {
		t.Setenv("CI", "")
		t.Setenv("REPLICATOR_REQUIRE_SERVERS", required)
		var ran atomic.Bool
		t.Run("required="+required, func(t *testing.T) {
			servertest.EachKind(t, func(_ *testing.T, kind servers.Kind) {
				if kind != servers.MySQL {
					ran.Store(true)
				}
			})
		})
		if ran.Load() != (required == "1") {
			t.Errorf("required=%s: a kind that is left out ran: %v", required, ran.Load())
		}
	}
}

func TestKindsThatStandInTakeThePlaceOfThoseOfTheirMake(t *testing.T) {
	t.Setenv("REPLICATOR_TEST_INSTEAD", "mariadb-10.11,valkey")
	var mu sync.Mutex
	var ran []servers.Kind
	note := func(_ *testing.T, kind servers.Kind) {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, kind)
	}
	t.Run("each", func(t *testing.T) { servertest.EachKind(t, note) })
	t.Run("some", func(t *testing.T) {
		servertest.EachKindOf(t, []servers.Kind{servers.MariaDB1011, servers.MariaDB118}, note)
	})
	if want := []servers.Kind{servers.MariaDB1011, servers.MariaDB1011}; !slices.Equal(ran, want) {
		t.Errorf("the tests ran on %v, want %v", ran, want)
	}
	if s := servertest.Shared(t, servers.MariaDB118); s.Kind != servers.MariaDB1011 {
		t.Errorf("a test that asks for another MariaDB gets %s", s.Kind)
	}
}

func TestWriteCountSumsUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "count")
	var out bytes.Buffer
	if err := servertest.WriteCount(&out, path); err != nil || !strings.Contains(out.String(), "no test") {
		t.Errorf("%v, %s", err, out.String())
	}
	lines := "mysql 9.7.4\t/p\tTestA\nmysql 9.7.4\t/q\tTestA\nmysql 9.7.4\t/q\tTestA\nmariadb-10.11 10.11.19\t/p\tTestB\n"
	if err := os.WriteFile(path, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := servertest.WriteCount(&out, path); err != nil {
		t.Fatal(err)
	}
	if want := "servers: mariadb-10.11 10.11.19: 1 test, mysql 9.7.4: 2 tests\n"; out.String() != want {
		t.Errorf("got %s", out.String())
	}
}
