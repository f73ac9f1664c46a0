package checkpoint

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"replicator"
)

// letters is the log of dead letters, a file. Saving a letter appends a line, and so does removing letters.
type letters struct {
	path  string
	index *index

	mu      sync.Mutex // guards the fields below
	file    *os.File
	size    int64 // the log's size in bytes, without an incomplete last line
	live    int64 // bytes of lines that are not obsolete
	changed bool  // an error may have damaged the file, so nothing may be appended
	closed  bool
}

// line is a line of the dead-letter log. The log's first line has only the format.
type line struct {
	Format int      `json:"format,omitempty"`
	Bury   *letter  `json:"bury,omitempty"`
	Remove []string `json:"remove,omitempty"`
}

// letter is the stored form of a dead letter. Keys, columns and raw rows may be binary, so they are in base64.
type letter struct {
	ID       string    `json:"id"`
	View     string    `json:"view"`
	Source   string    `json:"source,omitempty"`
	Table    string    `json:"table"`
	Key      []byte    `json:"key"`
	Column   []byte    `json:"column,omitempty"`
	Version  int64     `json:"version"`
	Order    int64     `json:"order"`
	Position string    `json:"position,omitempty"`
	Reason   string    `json:"reason"`
	Time     time.Time `json:"time"`
	Raw      []byte    `json:"raw,omitempty"`
}

// openLetters opens the dead-letter log for writing. It rewrites the log if most of it is obsolete.
func openLetters(path string) (*letters, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: dead letters: %w", err)
	}
	l := &letters{path: path, file: file, index: newIndex()}
	err = l.read()
	if err == nil {
		// A crash may leave an incomplete last line, which was never reported as saved. The incomplete line is removed
		// before another line is appended.
		err = file.Truncate(l.size)
	}
	if err == nil && l.size == 0 {
		if err = l.append([]line{{Format: format}}); err == nil {
			err = syncDir(filepath.Dir(path)) // without this, a crash may remove the new file and letters saved in it
		}
	}
	if err == nil {
		err = l.compact()
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *letters) read() error {
	in := bufio.NewReaderSize(io.NewSectionReader(l.file, 0, 1<<62), 1<<16)
	for number := 1; ; number++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // the end, or an incomplete last line, which openLetters removes
		}
		if err != nil {
			return fmt.Errorf("checkpoint: dead letters: %w", err)
		}
		if err := l.enter(number, text); err != nil {
			return fmt.Errorf("checkpoint: %s: line %d %w", l.path, number, err)
		}
		l.size += int64(len(text))
	}
}

func (l *letters) enter(number int, text []byte) error {
	damaged := func(why any) error {
		return fmt.Errorf("is damaged (%v). Restore the file from a backup, or move it away and verify the views, "+
			"because its dead letters are then lost", why)
	}
	var n line
	if err := json.Unmarshal(text, &n); err != nil {
		return damaged(err)
	}
	switch {
	case number == 1 && n.Format > format:
		return fmt.Errorf("has format %d, which a newer version wrote. This version knows format %d. "+
			"Use the newer version", n.Format, format)
	case number == 1 && n.Format < 1:
		return damaged("it has no valid \"format\"")
	case number == 1:
	case n.Bury != nil:
		id, ok := parseID(n.Bury.ID)
		if !ok || n.Bury.View == "" {
			return damaged("a letter has no id or view")
		}
		l.live += int64(len(text)) - l.index.put(id, entry{at: l.size, size: int64(len(text)),
			view: n.Bury.View, source: n.Bury.Source}).size
	default:
		for _, text := range n.Remove {
			if id, ok := parseID(text); ok {
				l.live -= l.index.take(id).size
			}
		}
	}
	return nil
}

func (l *letters) bury(list []replicator.DeadLetter) error {
	lines := make([]line, len(list))
	for i, d := range list {
		id := l.index.id(d.View, d.Source, d.Cell)
		lines[i].Bury = &letter{ID: id.String(), View: d.View, Source: d.Source, Table: d.Cell.Table,
			Key: []byte(d.Cell.Key), Column: []byte(d.Cell.Column), Version: d.Version, Order: d.Order, Position: d.Position,
			Reason: d.Reason, Time: d.Time.UTC(), Raw: d.Raw}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(lines)
}

func (l *letters) raise(view, source string, cells []replicator.Cell) error {
	ids := l.index.of(view, source, cells)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remove(ids)
}

func (l *letters) raiseKnown(view, source string, cell replicator.Cell, number int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remove(l.index.idIfNumber(view, source, cell, number))
}

func (l *letters) drop(texts []string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := l.index.known(texts)
	return len(ids), l.remove(ids)
}

func (l *letters) remove(ids []letterID) error {
	if len(ids) == 0 {
		return nil
	}
	n := line{}
	for _, id := range ids {
		n.Remove = append(n.Remove, id.String())
	}
	return l.append([]line{n})
}

// append writes lines with one sync, and adds the lines to the index once they are durable.
func (l *letters) append(lines []line) error {
	if l.closed {
		return ErrClosed
	}
	if len(lines) == 0 {
		return nil
	}
	if l.changed {
		return fmt.Errorf("checkpoint: %s may be damaged after an earlier error. Restart the program to reopen "+
			"the file", l.path)
	}
	var b bytes.Buffer
	ends := make([]int, len(lines))
	for i, n := range lines {
		text, err := json.Marshal(n)
		if err != nil {
			return fmt.Errorf("checkpoint: dead letters: %w", err)
		}
		b.Write(append(text, '\n'))
		ends[i] = b.Len()
	}
	_, err := l.file.WriteAt(b.Bytes(), l.size)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		// A failed write may have left an incomplete line, which must not precede the next line.
		undo := l.file.Truncate(l.size)
		l.changed = undo != nil
		return fmt.Errorf("checkpoint: saving dead letters: %w", errors.Join(err, undo))
	}
	start := 0
	for i, end := range ends {
		// The first line of the file says the file's format. `enter` checks the format if `number` is 1, and treats all
		// higher numbers alike.
		number := 2
		if l.size == 0 {
			number = 1
		}
		if err := l.enter(number, b.Bytes()[start:end]); err != nil {
			return fmt.Errorf("checkpoint: %s: line %d of the %d lines just saved %w", l.path, i+1, len(ends), err)
		}
		l.size += int64(end - start)
		start = end
	}
	_ = l.compact() // if compact fails, the letters are durable anyway; the next append compacts again, or fails
	return nil
}

// leastGarbage is how many bytes of obsolete lines make it worthwhile to rewrite the dead-letter log. It is small,
// because the state directory's disk may be small.
const leastGarbage = 64 << 10

// compact rewrites the dead-letter log if most of it is obsolete. Otherwise letters that are saved again and again
// would fill the disk.
func (l *letters) compact() error {
	if garbage := l.size - l.live; garbage < leastGarbage || garbage < l.live {
		return nil
	}
	temporary := l.path + ".new"
	file, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("checkpoint: compacting dead letters: %w", err)
	}
	fresh := &letters{path: l.path, file: file, index: newIndex()}
	if err = l.copyTo(fresh); err == nil {
		if err = os.Rename(temporary, l.path); err == nil {
			err = syncDir(filepath.Dir(l.path))
			old := l.file
			l.file, l.size, l.live = fresh.file, fresh.size, fresh.live
			l.index.replace(fresh.index)
			l.changed = err != nil // if the sync failed, a crash could bring back the old log: append nothing
			return errors.Join(err, old.Close())
		}
	}
	return fmt.Errorf("checkpoint: compacting dead letters: %w", errors.Join(err, file.Close(), os.Remove(temporary)))
}

func (l *letters) copyTo(fresh *letters) error {
	out := bufio.NewWriterSize(fresh.file, 1<<16)
	put := func(number int, text []byte) error {
		if err := fresh.enter(number, text); err != nil {
			return err
		}
		fresh.size += int64(len(text))
		_, err := out.Write(text)
		return err
	}
	head, err := json.Marshal(line{Format: format})
	if err != nil {
		return err
	}
	if err := put(1, append(head, '\n')); err != nil {
		return err
	}
	for _, id := range l.index.ordered("") {
		text, err := l.textOf(id)
		if err == nil {
			err = put(2, text)
		}
		if err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return fresh.file.Sync()
}

func (l *letters) textOf(id letterID) ([]byte, error) {
	e := l.index.get(id)
	text := make([]byte, e.size)
	_, err := l.file.ReadAt(text, e.at)
	return text, err
}

func (l *letters) list(view string) iter.Seq2[replicator.DeadLetter, error] {
	return func(yield func(replicator.DeadLetter, error) bool) {
		if l.isClosed() {
			yield(replicator.DeadLetter{}, ErrClosed)
			return
		}
		for _, id := range l.index.ordered(view) {
			d, there, err := l.letter(id)
			if err != nil {
				yield(replicator.DeadLetter{}, err)
				return
			}
			if there && !yield(d, nil) {
				return
			}
		}
	}
}

func (l *letters) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *letters) letter(id letterID) (d replicator.DeadLetter, there bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return d, false, ErrClosed
	}
	if l.index.get(id).size == 0 {
		return d, false, nil
	}
	text, err := l.textOf(id)
	var n line
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil || n.Bury == nil {
		return d, false, fmt.Errorf("checkpoint: %s: dead letter %s can't be read (%w)", l.path, id, err)
	}
	b := n.Bury
	return replicator.DeadLetter{ID: b.ID, View: b.View, Source: b.Source,
		Cell:    replicator.Cell{Table: b.Table, Key: replicator.Key(b.Key), Column: string(b.Column)},
		Version: b.Version, Order: b.Order, Position: b.Position, Reason: b.Reason, Raw: b.Raw, Time: b.Time}, true, nil
}

func (l *letters) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.file.Close()
}

// fileReader reads the store in a directory while another process may write to it.
type fileReader struct {
	dir     string
	letters *letters // the log of dead letters; letters.file is nil if there is no log yet
}

// ReadFile opens the store in a directory for reading, without taking its lock. It shows the dead letters at the time
// of the call.
func ReadFile(dir string) (Reader, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint: %w: there is no directory %s. `replicator run` creates it", ErrNoState, dir)
	} else if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	path := filepath.Join(dir, lettersName)
	r := &fileReader{dir: dir, letters: &letters{path: path, index: newIndex()}}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	r.letters.file = file
	if err := r.letters.read(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return r, nil
}

func (r *fileReader) Checkpoints(context.Context) ([]replicator.Checkpoint, error) {
	all, err := readCheckpoints(r.dir)
	return sorted(all), err
}

func (r *fileReader) List(_ context.Context, view string) iter.Seq2[replicator.DeadLetter, error] {
	return r.letters.list(view)
}

func (r *fileReader) Count(context.Context) (map[string]int, error) {
	return r.letters.index.count(), nil
}

func (r *fileReader) Close() error {
	if r.letters.file == nil {
		return nil
	}
	return r.letters.close()
}
