package checkpoint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"

	"replicator"
)

// ErrLocked: another process has locked the store.
var ErrLocked = errors.New("another replicator uses these checkpoints")

// ErrNoState: the store does not exist yet. Only ReadFile and ReadMySQL, and the readers that they return, have this
// error.
var ErrNoState = errors.New("there are no checkpoints yet")

// ErrClosed: the store was closed.
var ErrClosed = errors.New("the checkpoint store is closed")

// Reader is a read-only store.
type Reader interface {
	Checkpoints(ctx context.Context) ([]replicator.Checkpoint, error)
	List(ctx context.Context, view string) iter.Seq2[replicator.DeadLetter, error]
	Count(ctx context.Context) (map[string]int, error)
	Close() error
}

// letterID is the id of a dead letter. It identifies one source's cell in one view.
type letterID uint64

// idOf hashes view, source and cell. Ids are stored and shown to users, so the function must never change.
func idOf(view, source string, cell replicator.Cell) letterID {
	b := make([]byte, 0, 128)
	for _, part := range []string{view, cell.Table, cell.Column, string(cell.Key), source} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	if source == "" {
		b = b[:len(b)-1]
	}
	sum := sha256.Sum256(b)
	return letterID(binary.BigEndian.Uint64(sum[:8]))
}

func (id letterID) String() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	return hex.EncodeToString(b[:])
}

// parseID parses an id in the form that is shown to users. It returns false if the text is not an id.
func parseID(text string) (letterID, bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 8 {
		return 0, false
	}
	return letterID(binary.BigEndian.Uint64(b)), true
}

// place identifies a checkpoint: a view and a source.
type place struct{ view, source string }

func placeOf(c replicator.Checkpoint) place { return place{c.View, c.Source} }

func sorted(all map[place]replicator.Checkpoint) []replicator.Checkpoint {
	list := make([]replicator.Checkpoint, 0, len(all))
	for _, c := range all {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b replicator.Checkpoint) int {
		return cmp.Or(cmp.Compare(a.View, b.View), cmp.Compare(a.Source, b.Source))
	})
	return list
}

// valid refuses checkpoints without a view's name. It also refuses text that is not UTF-8, which JSON would change.
func valid(checkpoints []replicator.Checkpoint) error {
	for _, c := range checkpoints {
		if c.View == "" {
			return errors.New("checkpoint: a checkpoint has no view name")
		}
		texts := []string{c.View, c.Source, c.Fingerprint, c.Position.Token}
		for table, p := range c.Fill {
			texts = append(texts, table, p.After)
		}
		for _, text := range texts {
			if !replicator.ValidText(text) {
				return fmt.Errorf("checkpoint: view %s: the checkpoint holds %q, which is not UTF-8", c.View, text)
			}
		}
	}
	return nil
}
