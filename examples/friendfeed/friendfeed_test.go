package friendfeed_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"replicator/examples/friendfeed"
	"replicator/internal/lab"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) { lab.Main(func() int { return servertest.Run(m) }) }

const kills = 3

// python returns the path of the Python that runs the writer and the check.
func python(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err == nil {
		return path
	}
	const missing = "python3 is missing: FriendFeed's entities are written and checked by Python (apt-get install python3)"
	if os.Getenv("CI") == "true" || os.Getenv("REPLICATOR_REQUIRE_SERVERS") == "1" {
		t.Fatal(missing)
	}
	fmt.Fprintln(os.Stderr, "friendfeed: SKIP", t.Name()+":", missing)
	t.Skip(missing)
	return ""
}

// site is the entities' database and the indexes' databases, on two servers.
type site struct {
	t      testing.TB
	python string
	source lab.MySQL
	shards []lab.MySQL
	env    []string
}

func TestEveryIndexEqualsTheEntitiesThroughKillsAndAReplay(t *testing.T) {
	snake := python(t)
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		seed := time.Now().UnixNano()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		s, p := prepare(t, kind, snake)
		p.Run("check")
		p.CatchUp() // before any delete: a sink does not know what was deleted before its views were filled

		s.watch(func() {
			wrote := s.write(seed, 5*time.Second)
			for range kills {
				running := p.Start()
				lab.Pause(t, time.Duration(200+r.IntN(900))*time.Millisecond)
				running.Kill()
			}
			wrote()
			p.CatchUp()
		})
		s.verify("after the kills")

		// A replicator without saved state replays the whole binlog over indexes that are already right.
		fresh := p.WithNewState()
		s.watch(func() {
			t.Logf("replayed in %s", fresh.Replay(s.source.Oldest(t)).Round(time.Millisecond))
		})
		s.verify("after a replay from the oldest binlog")
	})
}

func prepare(t testing.TB, kind servers.Kind, snake string) (*site, *lab.Program) {
	t.Helper()
	first, second := servertest.Own(t, kind), servertest.Own(t, kind)
	s := &site{t: t, python: snake}
	var dsn string
	s.source, dsn = lab.Prepare(t, first, "friendfeed", friendfeed.Schema)
	s.env = []string{"FRIENDFEED_DSN=" + dsn}
	for n, server := range []*servers.Server{first, first, second} {
		shard, dsn := lab.Prepare(t, server, fmt.Sprintf("index%d", n), friendfeed.Shards)
		s.shards = append(s.shards, shard)
		s.env = append(s.env, fmt.Sprintf("FRIENDFEED_SHARD%d=%s", n, dsn))
	}
	return s, lab.Build(t, "FRIENDFEED", friendfeed.Config, s.env...)
}

// write pipes writer.py into the mysql client. The returned function waits for both.
func (s *site) write(seed int64, d time.Duration) (wait func()) {
	s.t.Helper()
	writer := exec.CommandContext(s.t.Context(), s.python, "writer.py", "--seed", strconv.FormatInt(seed, 10), "--seconds", fmt.Sprint(d.Seconds()))
	client, err := s.source.Command(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var complaints, refusals bytes.Buffer
	writer.Stderr, client.Stderr = &complaints, &refusals
	if client.Stdin, err = writer.StdoutPipe(); err != nil {
		s.t.Fatal(err)
	}
	if err := errors.Join(writer.Start(), client.Start()); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		s.t.Helper()
		if err := errors.Join(client.Wait(), writer.Wait()); err != nil {
			s.t.Fatalf("the writer: %v\n%s%s", err, refusals.String(), complaints.String())
		}
	}
}

// watch reads an entity that changes all the time from all shards while do runs. The entity's time only grows, and it
// moves from shard to shard with its user. No index may show an earlier time than before. A reader that goes from shard
// to shard can miss an entry that moves meanwhile, so it then reads again.
func (s *site) watch(do func()) {
	s.t.Helper()
	var readers []*sql.DB // one connection each, so that watch reads often
	for _, shard := range s.shards {
		db, err := sql.Open("mysql", shard.Server.DSN(shard.Database))
		if err != nil {
			s.t.Fatal(err)
		}
		defer db.Close()
		readers = append(readers, db)
	}
	newest := int64(-1)
	look := func(ctx context.Context) (int64, error) {
		for try := 0; ; try++ {
			found := int64(-1)
			for _, db := range readers {
				var published int64
				err := db.QueryRowContext(ctx, "SELECT COALESCE(MAX(published), -1) FROM index_user_published WHERE entity_id = X'71f0c4d2291844cca2df6f486e96e37c'").Scan(&published)
				if err != nil {
					return 0, err
				}
				found = max(found, published)
			}
			if found >= newest || try == 10 {
				return found, nil
			}
		}
	}
	looks := lab.Watch(s.t, look, func(published int64) error {
		if published < newest {
			return fmt.Errorf("the hot entity's time went from %d back to %d", newest, published)
		}
		newest = published
		return nil
	}, do)
	s.t.Logf("looked %d times, up to time %d", looks, newest)
}

func (s *site) verify(when string) {
	s.t.Helper()
	held, differences, err := friendfeed.Verify(s.t.Context(), s.python, s.source, s.shards)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(differences) > 0 {
		s.t.Fatalf("%s:\n%s", when, strings.Join(differences, "\n"))
	}
	if held == 0 {
		s.t.Fatalf("%s: every index is empty", when)
	}
	s.t.Logf("%s: %d entries, all as the entities say", when, held)
}
