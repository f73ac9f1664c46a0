package spill

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// checkWalk compares a walk with the model. The walk begins after a key and visits at most the given number of entries.
func checkWalk(t *testing.T, m *Map, model map[string]string, after []byte, most int) {
	t.Helper()
	want := slices.Sorted(maps.Keys(model))
	want = slices.DeleteFunc(want, func(k string) bool { return after != nil && k <= string(after) })
	want = want[:min(len(want), most)]
	var got []string
	if most > 0 {
		err := m.Walk(after, func(key, value []byte) bool {
			got = append(got, string(key))
			if string(value) != model[string(key)] {
				t.Errorf("the walk says that %q is %.20q, want %.20q", key, value, model[string(key)])
			}
			return len(got) < most
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("after %q come %d keys, want %d: %.200q, want %.200q", after, len(got), len(want), got, want)
	}
}

func checkGet(t *testing.T, m *Map, model map[string]string, keys [][]byte) {
	t.Helper()
	n := 0
	err := m.Get(keys, func(i int, value []byte, ok bool) {
		n++
		want, has := model[string(keys[i])]
		if ok != has || string(value) != want {
			t.Errorf("%q is %.20q (%t), want %.20q (%t)", keys[i], value, ok, want, has)
		}
	})
	if err != nil || n != len(keys) {
		t.Fatalf("%d of %d keys: %v", n, len(keys), err)
	}
}

func TestAMapIsTheModelWhateverIsSpilledAndMerged(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			m, model := New(t.TempDir()), map[string]string{}
			m.spillAt = 1 << (10 + r.IntN(6))
			keys, longest := 1+r.IntN(3000), 1<<r.IntN(12)
			key := func() []byte {
				n := r.IntN(keys)
				return fmt.Appendf(nil, "%d%s", n, strings.Repeat("k", n%7*n%50))
			}
			for range 300 {
				for range r.IntN(60) {
					k, v := key(), strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(longest))
					if err := m.Put(k, []byte(v)); err != nil {
						t.Fatal(err)
					}
					model[string(k)] = v
				}
				switch r.IntN(4) {
				case 0:
					checkGet(t, m, model, [][]byte{key(), key(), []byte("none"), {}, key()})
				case 1:
					checkWalk(t, m, model, key(), r.IntN(20))
				case 2:
					checkWalk(t, m, model, nil, len(model)+1)
				}
			}
			if err := m.Put(nil, nil); err != nil { // an empty key is a key, too
				t.Fatal(err)
			}
			model[""] = ""
			checkWalk(t, m, model, nil, len(model)+1)
			checkWalk(t, m, model, []byte{}, len(model)+1)
			checkGet(t, m, model, [][]byte{nil})
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// settled waits until no merge is under way.
func (m *Map) settled() []*run {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.merging {
		m.changed.Wait()
	}
	return m.runs
}

func TestRunsStayFewAndHoldLittleMoreThanWhatCounts(t *testing.T) {
	for name, keys := range map[string]int{"a map that grows": 1 << 40, "a map that is written again": 500} {
		t.Run(name, func(t *testing.T) {
			m, written, model := New(t.TempDir()), 0, map[string]int{}
			defer m.Close()
			m.spillAt = 16 << 10
			value := make([]byte, 100)
			r := rand.New(rand.NewPCG(1, 1))
			for range 100_000 {
				k := fmt.Sprint(r.IntN(keys))
				if err := m.Put([]byte(k), value); err != nil {
					t.Fatal(err)
				}
				model[k] = len(k) + len(value) + 2
				written++
			}
			runs, size, counts := m.settled(), int64(0), int64(0)
			for _, r := range runs {
				size += r.size
			}
			for _, n := range model {
				counts += int64(n)
			}
			if len(runs) > 24 || size > 3*counts+int64(4*m.spillAt) {
				t.Errorf("after %d writes there are %d runs of %d bytes, of which %d count", written, len(runs), size, counts)
			}
		})
	}
}

func TestAFilterKnowsMostKeysThatItLacks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f := newFilter(10_000)
	added := make([]uint64, 10_000)
	for i := range added {
		added[i] = r.Uint64()
		f.add(added[i])
	}
	for _, h := range added {
		if !f.may(h) {
			t.Fatalf("%x was added", h)
		}
	}
	wrong := 0
	for range 10_000 {
		if f.may(r.Uint64()) {
			wrong++
		}
	}
	if wrong > 300 {
		t.Errorf("it takes %d of 10,000 keys for its own", wrong)
	}
}

// A program that is killed leaves no files behind.
func TestFilesHaveNoName(t *testing.T) {
	dir := t.TempDir()
	m := New(dir)
	m.spillAt = 1000
	for n := range 1000 {
		if err := m.Put(fmt.Append(nil, n), []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || len(m.settled()) == 0 {
		t.Errorf("while it is in use there are %v, %v", left, err)
	}
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Fatal(err)
	}
	if err := m.Put(nil, nil); err == nil {
		t.Error("it is closed, and takes a value")
	}
}

// A damaged file must cause an error. It must not look like a missing key.
func TestAFileThatIsDamagedFails(t *testing.T) {
	m := New(t.TempDir())
	defer m.Close()
	m.spillAt = 1000
	var key []byte
	for n := 0; len(m.settled()) == 0; n++ {
		key = fmt.Append(nil, n)
		if err := m.Put(key, make([]byte, 50)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.runs[0].file.Truncate(10); err != nil {
		t.Fatal(err)
	}
	if err := m.Get([][]byte{key}, func(int, []byte, bool) {}); err == nil {
		t.Error("a look-up finds nothing wrong")
	}
	if err := m.Walk(nil, func([]byte, []byte) bool { return true }); err == nil {
		t.Error("a walk finds nothing wrong")
	}
}

// A disk may be full for a while. Then new entries can't be written, or files can't be merged.
func TestAFailureLosesNothing(t *testing.T) {
	good := t.TempDir()
	m, model := New(good), map[string]string{}
	defer m.Close()
	m.spillAt = 1000
	inDir := func(dir string) {
		m.settled()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.dir = dir
	}
	failures := 0
	for n := range 5000 {
		if n%100 == 0 {
			inDir(good + "/none")
		}
		k, v := fmt.Sprint(n%1500), fmt.Sprint("value ", n)
		for m.Put([]byte(k), []byte(v)) != nil {
			failures++
			inDir(good)
		}
		model[k] = v
	}
	m.settled()
	m.mu.Lock()
	m.merging, m.dir = true, good+"/none"
	runs := slices.Clone(m.runs)
	m.mu.Unlock()
	m.mergeRuns(0, runs)
	if err := m.Get(nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a merge failed: %v", err)
	}
	inDir(good)
	checkWalk(t, m, model, nil, len(model)+1)
	if failures < 20 {
		t.Errorf("it failed %d times", failures)
	}
}

func TestAFileThatCanNotBeMadeFails(t *testing.T) {
	m := New(t.TempDir() + "/none")
	m.spillAt = 100
	if err := m.Put([]byte("a"), make([]byte, 100)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is no directory: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
