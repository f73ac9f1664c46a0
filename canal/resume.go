package canal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"replicator"
	"replicator/canal/gtid"
	"replicator/internal/remedy"
)

// place is the log position on this server at which reading begins. It is derived from a replicator.Position.
type place struct {
	file  fileName
	pos   int64
	event event // the event that ends at pos; unknown if nothing was read before it
	epoch int
	gtids *gtid.Set // the transactions that the saved Position includes; nil: unknown
	born  uint32    // when the file was begun
	skip  bool      // transactions in gtids may also follow `pos`; reading drops them
	moved bool      // the log position, epoch or gtids differ from those in the saved Position

	mustPrecede *gtid.Set // transactions that must precede `pos`, else this is a different log; nil: not checked

	forked    bool // two MariaDB servers numbered transactions independently
	anonymous bool // the last transaction that was read has no GTID

	// What was read beyond the saved Position (token.Read): up to which log position, and which transactions.
	read   placed
	readAt int64     // the log position in `read` as a number, with epoch 0; 0: no log position is known
	beyond *gtid.Set // transactions read after the saved Position: see token.Read.GTID; nil: none
	older  *gtid.Set // transactions read on another server and not yet on this one: see token.Read.Older; nil: none
	unsure *gtid.Set // transactions that an earlier process may have read: see token.Read.Unsure; nil: none
}

func (p place) order() int64 { return orderOf(p.epoch, p.file.number, p.pos) }

// resolver finds where reading continues on the connected server after a saved position (see kinship). On the server
// that the position is from, that is the position. On another server, it is the beginning of a file: the last one for
// which the position's GTIDs include everything in earlier files.
//
// GTID sets are compared here and not by the server, because MariaDB's functions only test for equality.
type resolver struct {
	source *Source
	db     querier
	server server
	files  []logFile
}

func newResolver(ctx context.Context, source *Source, db querier, s server) (*resolver, error) {
	files, err := logFiles(ctx, db)
	return &resolver{source, db, s, files}, err
}

func (r *resolver) resolve(ctx context.Context, t token) (place, error) {
	d, err := r.judge(ctx, t)
	if err == nil {
		err = r.refusal(t, d)
	}
	if err != nil {
		return place{}, err
	}
	var p place
	if d.kinship == heir {
		p, err = r.byGTID(ctx, t, d.gtids)
	} else {
		p, err = r.same(t, d)
	}
	if err == nil && t.Read != nil {
		p.beyond, err = r.transactions(t.Read.GTID, err)
		p.older, err = r.transactions(t.Read.Older, err)
		p.unsure, err = r.transactions(t.Read.Unsure, err)
	}
	if err == nil && d.executed != nil {
		for _, set := range []*gtid.Set{p.beyond, p.older, p.unsure} {
			if set != nil {
				set.Keep(d.executed)
			}
		}
	}
	if err == nil && t.Run != r.source.run && r.server.gtid() {
		p.unsure, err = r.server.executed(ctx, r.db)
	}
	return p, err
}

// transactions parses a GTID set. The result is nil for an empty text. If err, from an earlier call, is not nil, it
// only returns err.
func (r *resolver) transactions(text string, err error) (*gtid.Set, error) {
	if text == "" || err != nil {
		return nil, err
	}
	return gtid.Parse(r.server.flavor, text)
}

func (r *resolver) same(t token, d ruling) (place, error) {
	file, err := parseFileName(t.File)
	p := place{file: file, pos: t.Pos, event: t.Event, epoch: t.Epoch, gtids: d.gtids, mustPrecede: d.mustPrecede,
		born: d.born, skip: t.Skip, forked: t.Forked, anonymous: t.Anonymous}
	if t.Loose {
		p.gtids = nil
	}
	if err == nil && t.Read != nil && t.Read.File != "" {
		var number fileName
		number, err = parseFileName(t.Read.File)
		p.read, p.readAt = t.Read.placed, orderOf(0, number.number, t.Read.Pos)
	}
	return p, err
}

// named returns the token for a log position that the operator named. It fails if the source's binlog lacks the
// position.
func (r *resolver) named(ctx context.Context, p placed) (token, error) {
	d, err := r.atPlace(ctx, p)
	switch {
	case err != nil:
		return token{}, err
	case d.kinship == purged:
		return token{}, r.refusal(token{placed: p}, d)
	case d.kinship == another:
		return token{}, replicator.Fatal(fmt.Errorf("%s:%d is not a position in the source's binlog: %s", p.File,
			p.Pos, d.why))
	}
	return token{placed: p}, nil
}

// byGTID finds the place on this server at which reading continues after a position of another server. It uses the
// position's GTIDs.
func (r *resolver) byGTID(ctx context.Context, t token, gtids *gtid.Set) (place, error) {
	var failed error
	// All transactions in the files before files[i] were applied already. i is the last index for which that is true.
	i := sort.Search(len(r.files), func(i int) bool {
		before, err := r.server.gtidsOfFilesBefore(ctx, r.db, r.files[i].name)
		if err != nil {
			failed = errors.Join(failed, err)
			return true
		}
		return !gtids.Includes(before)
	}) - 1
	if failed != nil {
		return place{}, failed
	}
	if i < 0 {
		return place{}, r.refusal(t,
			ruling{kinship: purged, why: fmt.Sprintf("files before %s, the oldest file left, had transactions that "+
				"were not read yet", r.files[0].name)})
	}
	d, err := r.allLogged(ctx, gtids)
	if err == nil {
		err = r.refusal(t, d)
	}
	if err != nil {
		return place{}, err
	}
	p := place{file: r.files[i].fileName, pos: 4, epoch: t.Epoch, gtids: gtids, skip: true, moved: true}
	first, err := r.source.witness(ctx, r.server, placed{File: p.file.name, Pos: p.pos})
	if err != nil {
		return p, err
	}
	p.born = first.Born
	if t.Server != "" { // a new epoch, because files and addresses of two servers can't be compared
		p.epoch++
	}
	if p.epoch > maxEpoch {
		return p, errEpochs
	}
	return p, nil
}

// errEpochs means that no higher epoch (the upper bits of an Order) is left. The views must then be filled again,
// without their old states, which have Orders of earlier epochs.
var errEpochs = replicator.Fatal(fmt.Errorf("the source changed servers or reset its binlogs %d times, which is more than "+
	"can be counted. Stop the program, run `replicator checkpoint forget "+remedy.Views+"`, and start it again. It "+
	"then fills the views again", maxEpoch))

// start finds the place in this server's log for each of several positions. It returns the earliest place, and the
// token of that place's position. It raises the place's epoch to the highest one of all places.
func (r *resolver) start(ctx context.Context, at []replicator.Position) (place, token, error) {
	var first place
	var firstToken token
	var all []place
	epoch := 0
	tokens := make([]token, 0, len(at))
	for i, p := range at {
		if slices.ContainsFunc(at[:i], func(other replicator.Position) bool { return other.Token == p.Token }) {
			continue
		}
		t, err := parseToken(p.Token)
		if err != nil {
			return first, firstToken, err
		}
		resolved, err := r.resolve(ctx, t)
		if err != nil {
			return first, firstToken, err
		}
		epoch = max(epoch, resolved.epoch)
		all, tokens = append(all, resolved), append(tokens, t)
		if i == 0 || before(resolved, first) {
			first, firstToken = resolved, t
		}
	}
	firstToken.others = tokens
	for _, p := range all {
		first.haveRead(p)
		if len(all) > 1 {
			first.haveRead(p.asRead())
		}
	}
	if first.epoch != epoch {
		first.epoch, first.moved = epoch, true
	}
	if first.skip {
		// Reading must skip only transactions that all start positions include.
		for _, p := range all {
			if p.gtids == nil {
				first.skip, first.gtids, first.moved = false, nil, true
				break
			}
			if !p.gtids.Includes(first.gtids) {
				first.gtids, first.moved = first.gtids.Intersect(p.gtids), true
			}
		}
	}
	return first, firstToken, nil
}

// asRead returns a place that only says that everything up to p was read; haveRead merges it into another place. If p
// was moved, the result has only p's GTIDs, because this log was not read up to p's log position.
func (p place) asRead() place {
	read := place{beyond: p.gtids}
	if !p.moved {
		read.read, read.readAt = placed{File: p.file.name, Pos: p.pos, Born: p.born,
			Event: p.event}, orderOf(0, p.file.number, p.pos)
	}
	return read
}

// haveRead merges two records of how far the log was read, other's and p's. p gets the farther log position and the
// union of the GTID sets.
func (p *place) haveRead(other place) {
	if other.readAt > p.readAt {
		p.readAt, p.read = other.readAt, other.read
	}
	p.beyond = joined(p.beyond, other.beyond)
	p.older = joined(p.older, other.older)
	p.unsure = joined(p.unsure, other.unsure)
}

func joined(sets ...*gtid.Set) (all *gtid.Set) {
	for _, s := range sets {
		switch {
		case s == nil:
		case all == nil:
			all = s.Clone()
		default:
			all.Join(s)
		}
	}
	return all
}

func before(a, b place) bool {
	if a.file.number != b.file.number {
		return a.file.number < b.file.number
	}
	return a.pos < b.pos
}
