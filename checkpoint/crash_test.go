package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// childVariable is an environment variable that makes the test binary write to a store until it is killed. Its value is
// "file DIR" or "mysql DSN".
const childVariable = "CHECKPOINT_TEST_CHILD"

// child saves checkpoints and buries letters in numbered steps, and prints the number of each acknowledged step.
func child() {
	kind, where, _ := strings.Cut(os.Getenv(childVariable), " ")
	var s replicator.Store
	var err error
	if kind == "file" {
		s, err = asStore(OpenFile(where))
	} else {
		s, err = asStore(OpenMySQL(ctx, where, "replicator"))
	}
	for n := 1; err == nil; n++ {
		pair := []replicator.Checkpoint{checkpointOf("a", "", int64(n)), checkpointOf("b", "", int64(n))}
		if err = s.Save(ctx, pair); err == nil {
			err = s.Bury(ctx, []replicator.DeadLetter{letterOf("v", n), letterOf("w", n)})
		}
		if err == nil && n > 1 {
			err = s.Raise(ctx, "v", "shard", []replicator.Cell{letterOf("v", n-1).Cell})
		}
		fmt.Println(n)
	}
	fmt.Println(err)
	os.Exit(1)
}

func TestFileSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	survivesKill(t, "file "+dir, func() (replicator.Store, error) { return asStore(OpenFile(dir)) })
}

func TestMySQLSurvivesKill(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		dsn := s.DSN(servertest.Database(t, s))
		survivesKill(t, "mysql "+dsn, func() (replicator.Store, error) { return asStore(OpenMySQL(ctx, dsn, "replicator")) })
	})
}

// survivesKill kills a writer at work, several times, and checks that the store has everything that was acknowledged.
func survivesKill(t *testing.T, where string, open func() (replicator.Store, error)) {
	for round := range 5 {
		acknowledged := runAndKill(t, where, 3+7*round)
		s := untilFree(t, open)
		all, err := s.Checkpoints(ctx)
		check(t, err)
		if len(all) != 2 || all[0].Position != all[1].Position {
			t.Fatalf("half of a pair was saved: %+v", all)
		}
		if all[0].Position.Order < int64(acknowledged) {
			t.Errorf("%d was acknowledged, and %d is saved", acknowledged, all[0].Position.Order)
		}
		letters, err := listed(s, "w")
		check(t, err)
		if len(letters) < acknowledged {
			t.Errorf("%d letters were acknowledged, and %d are there", acknowledged, len(letters))
		}
		if left, err := listed(s, "v"); err != nil || len(left) > 3 {
			t.Errorf("%d raised letters are left, %v", len(left), err)
		}
		var ids []string
		for _, d := range letters {
			ids = append(ids, d.ID)
		}
		_, err = s.Drop(ctx, ids)
		check(t, err)
		check(t, s.Close())
	}
}

// runAndKill starts a child, and kills it after it reported n steps. It returns how many steps the child reported.
func runAndKill(t *testing.T, where string, n int) (acknowledged int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+where)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if acknowledged, err = strconv.Atoi(lines.Text()); err != nil {
			t.Errorf("the child failed: %s", lines.Text())
			break
		}
		if acknowledged == n {
			check(t, cmd.Process.Kill())
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Fatalf("the child ended with %v", err)
	}
	return acknowledged
}

// untilFree opens a store as soon as its lock is free. The server may need a moment to notice that the lock's holder
// was killed.
func untilFree(t *testing.T, open func() (replicator.Store, error)) replicator.Store {
	t.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	for {
		s, err := open()
		if err == nil {
			return s
		}
		if !errors.Is(err, ErrLocked) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
