package canal

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"replicator"
)

// place is where reading begins on this server, resolved from a position.
type place struct {
	file  fileName
	pos   int64
	epoch int
	gtids *gtidSet // all transactions before it, or with skip those applied; nil: not known
	born  uint32
	skip  bool
	moved bool // it isn't where the position said
}

// resolver finds positions again on the server that a connection leads to.
//
//	same server   the binlog is the one that was read if the server has all of the position's GTIDs, and (MariaDB, which has no
//	              identity of its own) they are exactly those at FILE:POS; then reading goes on there
//	other server  it must have all the position's GTIDs, and not have purged what follows them; reading begins at the
//	              last file that begins with no more than them
//
// The comparison is ours: a server compares its own sets rightly, but knows neither our skipped domains nor, on MariaDB,
// anything but equality.
type resolver struct {
	db     querier
	server server
	files  []logFile
}

func newResolver(ctx context.Context, db querier, s server) (*resolver, error) {
	files, err := logFiles(ctx, db)
	return &resolver{db, s, files}, err
}

func (r *resolver) resolve(ctx context.Context, t token) (place, error) {
	file, err := parseFileName(t.File)
	if err != nil {
		return place{}, err
	}
	var gtids *gtidSet
	if t.GTID != "" {
		if gtids, err = parseGTIDSet(r.server.flavor, t.GTID); err != nil {
			return place{}, r.otherServer(t, "its GTIDs are of another sort of server")
		}
		executed, err := r.server.executed(ctx, r.db)
		if err != nil {
			return place{}, err
		}
		if !executed.includes(gtids) {
			return place{}, replicator.Fatal(fmt.Errorf("the source lacks transactions that were applied (it was set back, or is a "+
				"server that never had them): applied %s, the source has %s. Point the source at a server that has them, or rebuild",
				t.GTID, executed))
		}
	}
	if t.Server != "" && t.Server != r.server.identity {
		return r.byGTID(ctx, t, file, gtids, "the position was made on another server")
	}
	return r.here(ctx, t, file, gtids)
}

// here resolves a position of this server.
func (r *resolver) here(ctx context.Context, t token, file fileName, gtids *gtidSet) (place, error) {
	p := place{file: file, pos: t.Pos, epoch: t.Epoch, gtids: gtids, born: t.Born, skip: t.Skip}
	if t.Loose {
		p.gtids = nil
	}
	for _, f := range r.files {
		if f.name != file.name {
			continue
		}
		if r.server.flavor == mariaFlavor && gtids != nil && !t.Skip {
			text, known, err := gtidAt(ctx, r.db, file.name, t.Pos)
			if err != nil {
				return p, err
			}
			at, err := parseGTIDSet(mariaFlavor, text)
			if err != nil {
				return p, err
			}
			if !known || !at.equal(gtids) {
				return r.byGTID(ctx, t, file, gtids, "its GTIDs are not those at this place of the binlog")
			}
		}
		if f.size < t.Pos {
			return p, replicator.Fatal(fmt.Errorf("binlog %s ends at %d, before the checkpoint at %d: the source was set back, or lost a part "+
				"of its binlog; rebuild", f.name, f.size, t.Pos))
		}
		return p, nil
	}
	if file.number > r.files[len(r.files)-1].number || file.base() != r.files[0].base() {
		return r.byGTID(ctx, t, file, gtids, fmt.Sprintf("the source has no binlog %s; its last is %s: its binlogs were begun anew (RESET)",
			file.name, r.files[len(r.files)-1].name))
	}
	if gtids == nil {
		return p, r.lost(t)
	}
	return r.byGTID(ctx, t, file, gtids, "")
}

func (r *resolver) lost(t token) error {
	return fmt.Errorf("%w: it is at %s, the oldest file left is %s; rebuild, and keep binlogs longer (binlog_expire_logs_seconds)",
		replicator.ErrLost, t, r.files[0].name)
}

// byGTID finds a position by its GTIDs.
func (r *resolver) byGTID(ctx context.Context, t token, file fileName, gtids *gtidSet, why string) (place, error) {
	if gtids == nil || gtids.empty() {
		if why == "" {
			return place{}, r.lost(t)
		}
		return place{}, r.otherServer(t, why)
	}
	var failed error
	// The last file that begins with no more than what was applied.
	i := sort.Search(len(r.files), func(i int) bool {
		before, err := r.server.gtidsBefore(ctx, r.db, r.files[i].name)
		if err != nil {
			failed = errors.Join(failed, err)
			return true
		}
		return !gtids.includes(before)
	}) - 1
	if failed != nil {
		return place{}, failed
	}
	if i < 0 {
		return place{}, r.lost(t)
	}
	p := place{file: r.files[i].fileName, pos: 4, epoch: t.Epoch, gtids: gtids, skip: true, moved: true}
	if t.Server != "" && t.Server != r.server.identity || orderOf(0, p.file.number, p.pos) < orderOf(0, file.number, t.Pos) {
		p.epoch++ // this server's files and addresses mean nothing beside the old ones
	}
	if p.epoch > maxEpoch {
		return p, replicator.Fatal(fmt.Errorf("the source moved to another server %d times, more than orders can tell apart; rebuild", maxEpoch))
	}
	return p, nil
}

func (r *resolver) otherServer(t token, why string) error {
	from := t.Server
	if from == "" {
		from = "an unnamed server"
	}
	return replicator.Fatal(fmt.Errorf("the checkpoint %s belongs to %s, the source is now %s (%s), and no GTIDs prove that it holds "+
		"the same changes. Point the source at the old server, or set the checkpoint (replicator checkpoint set) or rebuild", t, from,
		r.server.identity, why))
}

// start resolves several positions to the earliest, in the newest one's Orders.
func (r *resolver) start(ctx context.Context, at []replicator.Position) (place, token, error) {
	var first place
	var firstToken token
	var all []place
	epoch := 0
	for i, p := range at {
		t, err := parseToken(p.Token)
		if err != nil {
			return first, firstToken, err
		}
		resolved, err := r.resolve(ctx, t)
		if err != nil {
			return first, firstToken, err
		}
		epoch = max(epoch, resolved.epoch)
		all = append(all, resolved)
		if i == 0 || before(resolved, first) {
			first, firstToken = resolved, t
		}
	}
	if first.epoch != epoch {
		first.epoch, first.moved = epoch, true
	}
	if first.skip {
		// Dropped is only what every position includes.
		for _, p := range all {
			if p.gtids == nil {
				first.skip, first.gtids, first.moved = false, nil, true
				break
			}
			if !p.gtids.includes(first.gtids) {
				first.gtids, first.moved = first.gtids.intersect(p.gtids), true
			}
		}
	}
	return first, firstToken, nil
}

func before(a, b place) bool {
	if a.file.number != b.file.number {
		return a.file.number < b.file.number
	}
	return a.pos < b.pos
}
