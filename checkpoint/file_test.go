package checkpoint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator"
)

func TestDirectoryAndFilesAreTheOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := OpenFile(dir)
	check(t, err)
	check(t, s.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 1)}))
	check(t, s.Close())
	for name, want := range map[string]os.FileMode{"": 0o700, lockName: 0o600, checkpointsName: 0o600, lettersName: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		check(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

// If the directory was removed, letters would go to a deleted file, and another process could lock a new directory. So
// the store must refuse to write.
func TestADirectoryThatIsRemovedUnderTheProgramIsNotWrittenToAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, err := OpenFile(dir)
	check(t, err)
	save := func() error { return s.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 1)}) }
	check(t, save())
	away := dir + ".away" // like a network file system that is gone for a while
	check(t, os.Rename(dir, away))
	if save() == nil {
		t.Error("it is saved to nowhere")
	}
	check(t, os.Rename(away, dir))
	check(t, save())
	for _, change := range []func() error{
		func() error { return os.RemoveAll(dir) },
		func() error { return os.Mkdir(dir, 0o700) },
		func() error { return os.WriteFile(filepath.Join(dir, lockName), nil, 0o600) },
	} {
		check(t, change())
		if err := save(); err == nil || !strings.Contains(err.Error(), "Put it back, or restart the program") {
			t.Errorf("it says %v", err)
		}
	}
	check(t, s.Close())
	s, err = OpenFile(dir)
	check(t, err)
	check(t, save())
	check(t, s.Close())
}

func TestDamagedCheckpointsAreAnErrorNeverAnEmptyStore(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenFile(dir)
	check(t, err)
	check(t, s.Save(ctx, []replicator.Checkpoint{checkpointOf("v", "", 1)}))
	check(t, s.Close())
	path := filepath.Join(dir, checkpointsName)
	good, err := os.ReadFile(path)
	check(t, err)
	bad := map[string]string{"newer": strings.Replace(string(good), `"format": 1`, `"format": 2`, 1), "other": `{"a": 1}`, "twice": string(good) + string(good)}
	for n := 0; n < len(good)-2; n += 3 {
		bad[fmt.Sprint("cut at ", n)] = string(good[:n])
	}
	for name, text := range bad {
		check(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := OpenFile(dir)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move it away") && !strings.Contains(err.Error(), "newer version") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	check(t, os.WriteFile(path, good, 0o600))
	s, err = OpenFile(dir)
	check(t, err)
	check(t, s.Close())
}

func TestTornEndOfTheLogIsDroppedAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenFile(dir)
	check(t, err)
	check(t, s.Bury(ctx, []replicator.DeadLetter{letterOf("v", 1)}))
	check(t, s.Bury(ctx, []replicator.DeadLetter{letterOf("v", 2)}))
	check(t, s.Close())
	path := filepath.Join(dir, lettersName)
	good, err := os.ReadFile(path)
	check(t, err)
	for n := 0; n <= len(good); n += 7 {
		check(t, os.WriteFile(path, good[:n], 0o600))
		s, err := OpenFile(dir)
		check(t, err)
		kept := max(0, bytes.Count(good[:n], []byte("\n"))-1)
		check(t, s.Bury(ctx, []replicator.DeadLetter{letterOf("v", 3)})) // after a torn line, too
		check(t, s.Close())
		s, err = OpenFile(dir)
		check(t, err)
		equalCount(t, s, fmt.Sprint("v ", kept+1))
		check(t, s.Close())
	}
	zeros := append(append([]byte(nil), good...), make([]byte, 4096)...) // as left by a power cut
	check(t, os.WriteFile(path, zeros, 0o600))
	s, err = OpenFile(dir)
	check(t, err)
	equalCount(t, s, "v 2")
	check(t, s.Close())

	lines := strings.SplitAfter(string(good), "\n")
	for name, text := range map[string]string{
		"middle": lines[0] + lines[1][:20] + "\n" + lines[2], "end": string(good) + "{]\n", "no format": lines[1],
		"no id": lines[0] + strings.Replace(lines[1], `"id":"`, `"id":"x`, 1), "newer": `{"format":2}` + "\n",
	} {
		check(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := OpenFile(dir); err == nil || !strings.Contains(err.Error(), path+": line ") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestLogOfGarbageIsWrittenAnew(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenFile(dir)
	check(t, err)
	big := letterOf("v", 1)
	big.Raw = make([]byte, 100<<10)
	check(t, s.Bury(ctx, []replicator.DeadLetter{letterOf("w", 7)}))
	for range 100 { // 13 MB in all, but only one letter
		check(t, s.Bury(ctx, []replicator.DeadLetter{big}))
	}
	info, err := os.Stat(filepath.Join(dir, lettersName))
	check(t, err)
	if info.Size() > 512<<10 { // must fit on a small disk
		t.Errorf("the log has %d bytes", info.Size())
	}
	equalLetters(t, s, "", letterOf("w", 7), big)
	check(t, s.Raise(ctx, "v", "shard", []replicator.Cell{big.Cell}))
	check(t, s.Close())
	s, err = OpenFile(dir)
	check(t, err)
	equalLetters(t, s, "", letterOf("w", 7))
	check(t, s.Close())
}

func TestLogThatCanNotBeBroughtBackTakesNoMore(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenFile(dir)
	check(t, err)
	check(t, s.Bury(ctx, []replicator.DeadLetter{letterOf("v", 1)}))
	good := s.letters.file
	s.letters.file, err = os.Open(good.Name()) // read-only, so it can be neither written nor truncated
	check(t, err)
	if err := s.Bury(ctx, []replicator.DeadLetter{letterOf("v", 2)}); err == nil {
		t.Error("buried in a file that can't be written")
	}
	check(t, s.letters.file.Close())
	s.letters.file = good
	if err := s.Bury(ctx, []replicator.DeadLetter{letterOf("v", 2)}); err == nil ||
		!strings.Contains(err.Error(), "Restart the program") {
		t.Errorf("error is %v", err)
	}
	equalLetters(t, s, "", letterOf("v", 1))
	check(t, s.Close())
}

func TestRaisingCellsWithoutLettersTouchesNoFile(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenFile(dir)
	check(t, err)
	check(t, s.Bury(ctx, []replicator.DeadLetter{letterOf("v", 1)}))
	path := filepath.Join(dir, lettersName)
	before, err := os.Stat(path)
	check(t, err)
	check(t, s.Raise(ctx, "v", "shard", []replicator.Cell{letterOf("v", 2).Cell}))
	check(t, s.Raise(ctx, "other", "shard", []replicator.Cell{letterOf("v", 1).Cell}))
	after, err := os.Stat(path)
	check(t, err)
	if before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()) {
		t.Error("the log was written to")
	}
	check(t, s.Close())
}

func BenchmarkRaiseWithoutLetters(b *testing.B) {
	s, err := OpenFile(b.TempDir())
	check(b, err)
	check(b, s.Bury(ctx, []replicator.DeadLetter{letterOf("v", 1)}))
	cells := []replicator.Cell{letterOf("v", 2).Cell}
	b.ReportAllocs()
	for b.Loop() {
		check(b, s.Raise(ctx, "v", "shard", cells))
	}
	check(b, s.Close())
}

func FuzzLettersLog(f *testing.F) {
	f.Add([]byte("{\"format\":1}\n{\"bury\":{\"id\":\"0123456789abcdef\",\"view\":\"v\",\"key\":\"AA==\",\"raw\":\"AA==\"}}\n{\"remove\":[\"0123456789abcdef\"]}\n"))
	f.Add([]byte("{\"format\":1}\n{\"bury\":"))
	f.Fuzz(func(t *testing.T, log []byte) {
		path := filepath.Join(t.TempDir(), lettersName)
		check(t, os.WriteFile(path, log, 0o600))
		l, err := openLetters(path)
		if err != nil {
			return
		}
		list, err := collect(l.list(""))
		check(t, err)
		n := 0
		for _, c := range l.index.count() {
			n += c
		}
		if n != len(list) {
			t.Errorf("%d letters are counted, %d listed", n, len(list))
		}
		check(t, l.bury([]replicator.DeadLetter{letterOf("v", 1)}))
		check(t, l.close())
		l, err = openLetters(path)
		check(t, err) // a log that was opened and written can be opened again
		check(t, l.close())
	})
}

func FuzzCheckpoints(f *testing.F) {
	f.Add([]byte(`{"format":1,"checkpoints":[{"view":"v","position":{"order":1,"token":"t"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := parseCheckpoints(data)
		if (all == nil) != (err != nil) {
			t.Errorf("checkpoints %v, error %v", all, err)
		}
	})
}
