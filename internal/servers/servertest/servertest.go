// Package servertest gives tests the real servers of package servers.
//
// A test binary that uses [Shared], [Each] or [MySQL] ends its servers in TestMain:
//
//	func TestMain(m *testing.M) { servertest.Main(m) }
//
// # Promises
//
//   - [Shared] starts one server for each kind and test binary, for tests that use their own [Database] and do not
//     stop, kill or reconfigure the server. [Own] starts a server for a single test.
//   - If a [Lender] runs the tests, all test binaries of the run share one [Elasticsearch] and one [Kafka] server.
//   - If a machine can't run a kind, tests of that kind are skipped, and say what is missing. With CI=true or
//     REPLICATOR_REQUIRE_SERVERS=1 they fail instead, so a green run has tested every kind.
//   - ELASTICSEARCH_URL names a running Elasticsearch to use instead of starting one.
//   - REPLICATOR_TEST_INSTEAD=mysql-5.7,elasticsearch-9 makes tests run on these kinds instead of the kinds that they
//     name. A test that asks for MySQL gets 5.7, and [Each] and [EachKind] run only on 5.7. `make matrix` uses it.
//   - REPLICATOR_TEST_SERVERS=mysql,mariadb-10.11 limits the kinds, for a quick run. It is ignored if servers are
//     required.
//   - [Main] prints how many tests used each kind. It also appends the counts to the file that REPLICATOR_TEST_COUNT
//     names, because go test hides the output of a package that passes.
//   - No server outlives the test binary, even after a crash (on Linux; see package servers).
package servertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver that Database needs
	"go.uber.org/goleak"

	"replicator/internal/child"
	"replicator/internal/servers"
)

const (
	requireVariable = "REPLICATOR_REQUIRE_SERVERS"
	countVariable   = "REPLICATOR_TEST_COUNT"
	elasticVariable = "ELASTICSEARCH_URL"
)

type share struct {
	once   sync.Once
	server *servers.Server
	err    error
}

var (
	inMain atomic.Bool // Main is running, and will end the shared servers

	sharesMu sync.Mutex
	shares   = map[servers.Kind]*share{}

	databases atomic.Int64
)

// Main runs a binary's tests like Run, and exits.
func Main(m *testing.M, opts ...goleak.Option) { os.Exit(Run(m, opts...)) }

// Run runs a binary's tests, ends the shared servers, and returns the exit status. It prints how many tests used each
// server. If the tests passed, it also checks for leaked goroutines, with opts for goleak.
func Run(m *testing.M, opts ...goleak.Option) int {
	inMain.Store(true)
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if text := used.String(); text != "" {
		fmt.Println(text)
	}
	if code == 0 {
		http.DefaultClient.CloseIdleConnections() // servers that outlive the tests may have idle connections
		if err := goleak.Find(opts...); err != nil {
			fmt.Fprintln(os.Stderr, "servertest: goroutines outlive the tests:", err)
			code = 1
		}
	}
	return code
}

// IgnoreServers is an option for tests that check for leaked goroutines while shared servers run. Each server has one
// goroutine, which the option ignores.
func IgnoreServers() goleak.Option {
	return goleak.IgnoreAnyFunction(reflect.TypeFor[child.Child]().PkgPath() + ".(*Child).hold")
}

func closeShared() error {
	sharesMu.Lock()
	defer sharesMu.Unlock()
	var err error
	for _, sh := range shares {
		if sh.server != nil {
			err = errors.Join(err, sh.server.Close())
		}
	}
	clear(shares)
	return err
}

// FreeAddress returns an address that nothing listens on. While the test runs, no server or connection gets its port.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, giveBack, err := servers.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := giveBack(); err != nil {
			t.Error(err)
		}
	})
	return address
}

// Shared returns the test binary's server of the kind. It starts the server for the first test that asks for it.
func Shared(t testing.TB, kind servers.Kind) *servers.Server {
	t.Helper()
	if !inMain.Load() {
		t.Fatal("servertest: no TestMain ends shared servers. Add func TestMain(m *testing.M) { servertest.Main(m) }")
	}
	kind = chosen(t, kind)
	skipUnselected(t, kind)
	sharesMu.Lock()
	sh := shares[kind]
	if sh == nil {
		sh = &share{}
		shares[kind] = sh
	}
	sharesMu.Unlock()
	sh.once.Do(func() { sh.server, sh.err = servers.Start(context.Background(), options(kind, nil)) })
	if sh.err != nil {
		Unavailable(t, sh.err)
	}
	used.add(t, sh.server)
	return sh.server
}

// MySQL returns the shared MySQL server.
func MySQL(t testing.TB) *servers.Server { t.Helper(); return Shared(t, servers.MySQL) }

// Redis returns the shared Redis 7 server.
func Redis(t testing.TB) *servers.Server { t.Helper(); return Shared(t, servers.Redis7) }

// Elasticsearch returns the URL of an Elasticsearch: the one in ELASTICSEARCH_URL, or else the one that a Lender lends
// to all test binaries, or else the Shared one of this binary. A test must use its own index names (see Name) and its
// own source.
func Elasticsearch(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(elasticVariable); given != "" {
		used.note(t, "elasticsearch (given)")
		return strings.TrimRight(given, "/")
	}
	if lent := borrow(t, servers.Elasticsearch); lent != "" {
		return lent
	}
	return Shared(t, servers.Elasticsearch).DSN("")
}

// Kafka returns the address of the Kafka broker that a Lender lends to all test binaries, or else of the Shared one of
// this binary. A test must use its own names (see Name) for topics, groups and transactional ids.
func Kafka(t testing.TB) string {
	t.Helper()
	if lent := borrow(t, servers.Kafka); lent != "" {
		return lent
	}
	return Shared(t, servers.Kafka).Addr()
}

// Name returns a name that no other test has, in this process or in others.
func Name() string {
	return fmt.Sprintf("t%d-%d", os.Getpid(), databases.Add(1))
}

// Own starts a server for this test alone, with options for the server's program, and closes it at the end.
func Own(t testing.TB, kind servers.Kind, args ...string) *servers.Server {
	t.Helper()
	kind = chosen(t, kind)
	skipUnselected(t, kind)
	s, err := servers.Start(t.Context(), options(kind, args))
	if err != nil {
		Unavailable(t, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	used.add(t, s)
	return s
}

// Each runs a subtest with the shared server of each kind that has a binlog, all kinds at once.
func Each(t *testing.T, test func(t *testing.T, s *servers.Server)) {
	t.Helper()
	EachKind(t, func(t *testing.T, kind servers.Kind) { test(t, Shared(t, kind)) })
}

// EachKind runs a subtest for each kind that has a binlog, all kinds at once. It is for tests that start their own
// servers. It returns when all subtests have ended.
//
// The kinds run at once because tests wait for servers more than they compute. The subtests don't share servers, but
// they share variables from outside the subtest.
func EachKind(t *testing.T, test func(t *testing.T, kind servers.Kind)) {
	t.Helper()
	EachKindOf(t, sources(t), test)
}

// First is Each with only one kind: the first of the run's kinds that have a binlog. It is for behaviour that does not
// differ between kinds. `make matrix` runs the tests once per kind, with that kind first.
func First(t *testing.T, test func(t *testing.T, s *servers.Server)) {
	t.Helper()
	FirstKind(t, func(t *testing.T, kind servers.Kind) { test(t, Shared(t, kind)) })
}

// FirstKind is EachKind with only one kind: the first of the run's kinds that have a binlog. It is for a test that
// starts its own servers.
func FirstKind(t *testing.T, test func(t *testing.T, kind servers.Kind)) {
	t.Helper()
	EachKindOf(t, sources(t)[:1], test)
}

// EachKindOf runs a subtest for each of the given kinds, all kinds at once. It returns when all subtests have ended.
func EachKindOf(t *testing.T, kinds []servers.Kind, test func(t *testing.T, kind servers.Kind)) {
	t.Helper()
	var tests sync.WaitGroup
	var done []servers.Kind
	for _, kind := range kinds {
		kind = chosen(t, kind)
		if slices.Contains(done, kind) {
			continue // the kind replaces two of the given kinds, but runs only once
		}
		done = append(done, kind)
		tests.Go(func() { runKind(t, kind, test) })
	}
	tests.Wait()
}

// EachKindInTurn is EachKind with one kind after another. It is for tests that measure the process or check for leaks.
func EachKindInTurn(t *testing.T, test func(t *testing.T, kind servers.Kind)) {
	t.Helper()
	for _, kind := range sources(t) {
		runKind(t, kind, test)
	}
}

func runKind(t *testing.T, kind servers.Kind, test func(t *testing.T, kind servers.Kind)) {
	t.Helper()
	t.Run(string(kind), func(t *testing.T) {
		skipUnselected(t, kind)
		test(t, kind)
	})
}

// Database creates an empty database with a unique name, and drops it at the end of the test. It returns the name. The
// DSN of the database is s.DSN(name).
func Database(t testing.TB, s *servers.Server) string {
	t.Helper()
	name := fmt.Sprintf("t%d_%d", os.Getpid(), databases.Add(1))
	if err := execute(s, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		t.Fatalf("servertest: %v", err)
	}
	t.Cleanup(func() {
		if !s.Running() { // the test has killed or closed the server
			return
		}
		if err := execute(s, "DROP DATABASE IF EXISTS "+name); err != nil {
			t.Errorf("servertest: %v. Did the test leave a transaction open?", err)
		}
	})
	return name
}

func execute(s *servers.Server, statement string) error {
	db, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s on %s: %w", statement, s.Kind, err)
	}
	return nil
}

func options(kind servers.Kind, args []string) servers.Options {
	return servers.Options{Kind: kind, Args: args, Small: true,
		Progress: func(text string) { fmt.Fprintln(os.Stderr, "servers:", text) }}
}

func required() bool {
	return os.Getenv("CI") == "true" || os.Getenv(requireVariable) == "1"
}

// Unavailable ends the test because of err. It skips the test if the machine can't run the server, and otherwise fails
// it.
func Unavailable(t testing.TB, err error) {
	t.Helper()
	var missing *servers.MissingError
	if errors.As(err, &missing) && !required() {
		fmt.Fprintf(os.Stderr, "servertest: SKIP %s: %v\n", t.Name(), err) // visible without -v if the package fails
		t.Skipf("servertest: %v", err)
	}
	t.Fatalf("servertest: %v", err)
}
