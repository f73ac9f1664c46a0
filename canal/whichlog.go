package canal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"replicator"
	"replicator/canal/gtid"
	"replicator/internal/remedy"
)

// Which log is this?
//
// A log is everything that one server wrote since its binlogs were begun. A RESET begins a new log. A server restored
// from a backup, or from an older snapshot of its virtual machine, continues with a different log. resolver.judge
// decides whether the server that answers now has the log that a position was read from. It compares what the position
// records:
//
//	server   server_uuid; on MariaDB, which has none, its id, host and port
//	file     name and number, and that the file is at least as long as the position says
//	birth    when the file was begun: the time of its first event
//	event    size and checksum of the event that ends at the position
//	GTIDs    of all transactions before the position
//	read     the same for changes that were delivered beyond the position, which sinks may already have
//	run      the process of replicator that made the position; if it is not this one, more may have been read
//
// On the same server everything must agree. If anything differs, it is a different log, even if the GTIDs agree: a
// server that was reset numbers its new transactions like the old ones. On another server files mean nothing, and only
// the GTIDs count. A refusal is final, because nothing that the log gains later can make it agree with the position.
//
//	the server was                          it is      and so
//	restarted, rotated                      theSame    reading goes on at the position
//	purged of the file                      purged     lost
//	running without logging its changes     unlogged   lost, if noticed: see type silence and server.unlogged
//	reset, restored from a backup, set back another    lost
//	replaced by a replica with everything   heir       reading goes on after what was applied, in a new epoch
//	replaced by a replica without the end   behind     lost
//	given a new uuid, data and binlogs kept heir       as above; without GTIDs: stranger
//	replaced by any other                   stranger   the operator must decide
type kinship int

const (
	theSame kinship = iota + 1
	purged
	unlogged
	another
	heir
	behind
	stranger
)

// ruling is the decision whether a server's log is the one that a position was read from, and the reason.
type ruling struct {
	kinship
	why   string
	gtids *gtid.Set // the position's GTIDs; nil if it has none, or if mustPrecede has them
	born  uint32    // when the position's file was begun; known only if the server has the position's log

	mustPrecede *gtid.Set // the position's GTIDs, if only reading the file can show that they precede it; else nil

	// The transactions that a MariaDB server has executed; nil unless the server certainly has the position's log. GTID
	// domains that are not in this set were deleted at the server, so they are ignored.
	executed *gtid.Set
}

// judge decides whether this server has the log that a position was read from. An error means that the server could not
// be asked.
func (r *resolver) judge(ctx context.Context, t token) (ruling, error) {
	if t.Server != "" && t.Server != r.server.identity {
		return r.elsewhere(ctx, t)
	}
	d, err := r.atPlace(ctx, t.placed)
	if err != nil || d.kinship != theSame {
		return d, err
	}
	if t.Read != nil && t.Read.File != "" {
		if read, err := r.atPlace(ctx, t.Read.placed); err != nil || read.kinship != theSame {
			if read.kinship == purged { // an older file still exists, so this one was not purged: the log is different
				read.kinship = another
			}
			return read, err
		}
	}
	at, err := parseFileName(t.File)
	if err != nil {
		return d, err
	}
	if at.number < r.source.silent.noteLogging(r.server.identity, r.files[len(r.files)-1].number) {
		return ruling{kinship: unlogged, why: "since then the source was seen running without logging its changes " +
			"(log_bin, or log_replica_updates, was OFF)"}, nil
	}
	if t.GTID == "" {
		return d, nil
	}
	if d.gtids, err = gtid.Parse(r.server.flavor, t.GTID); err != nil {
		return ruling{kinship: another, why: "the position's GTIDs have the format of another kind of server"}, nil
	}
	return d, r.agree(ctx, t, &d)
}

func (r *resolver) atPlace(ctx context.Context, p placed) (ruling, error) {
	file, err := parseFileName(p.File)
	if err != nil {
		return ruling{}, err
	}
	i := slices.IndexFunc(r.files, func(f logFile) bool { return f.name == file.name })
	first, last := r.files[0], r.files[len(r.files)-1]
	switch {
	case i < 0 && file.base() == first.base() && file.number < first.number:
		return ruling{kinship: purged, why: fmt.Sprintf("the oldest file left is %s", first.name)}, nil
	case i < 0:
		return ruling{kinship: another, why: fmt.Sprintf("the source has no binlog %s, its last is %s",
			file.name, last.name)}, nil
	case r.files[i].size < p.Pos:
		return ruling{kinship: another, why: fmt.Sprintf("binlog %s is shorter, it ends at %d", file.name,
			r.files[i].size)}, nil
	}
	w, err := r.source.witness(ctx, r.server, p)
	switch {
	case errors.Is(err, errNoEvent):
		return ruling{kinship: another, why: fmt.Sprintf("no event of binlog %s ends at %d", file.name, p.Pos)}, nil
	case err != nil:
		return ruling{}, err
	case p.Born != 0 && w.Born != p.Born:
		return ruling{kinship: another, why: fmt.Sprintf("binlog %s has a different creation time", file.name)}, nil
	case !p.Event.unknown() && w.Event != p.Event:
		return ruling{kinship: another, why: fmt.Sprintf("the event of binlog %s that ends at %d is not the one "+
			"that was read before", file.name, p.Pos)}, nil
	}
	return ruling{kinship: theSame, born: w.Born}, nil
}

// agree checks that the server that a position is from still has all of its GTIDs. The caller has compared the
// position's file and event. If the file still has the event that ends at the position, agree ignores domains that
// MariaDB's FLUSH BINARY LOGS DELETE_DOMAIN_ID has deleted.
func (r *resolver) agree(ctx context.Context, t token, d *ruling) error {
	executed, err := r.server.executed(ctx, r.db)
	if err != nil {
		return err
	}
	if r.server.flavor == gtid.MariaDB && t.asked() != 4 {
		d.executed = executed
		d.gtids.Keep(executed)
	}
	if !executed.Includes(d.gtids) {
		if !t.Event.unknown() {
			return fmt.Errorf("the source's binlog has the transactions %s, but the source lists only %s as executed "+
				"yet", t.GTID, executed)
		}
		d.kinship, d.why = another, fmt.Sprintf("the position was preceded by the transactions %s, and the source has "+
			"only %s", t.GTID, executed)
		return nil
	}
	if r.server.flavor == gtid.MySQL {
		logged, err := r.allLogged(ctx, d.gtids)
		if err == nil && logged.kinship != theSame {
			d.kinship, d.why = logged.kinship, logged.why
		}
		return err
	}
	if t.Skip {
		return nil
	}
	// MariaDB can't tell the GTIDs at every position of its binlog. Where it can't, the event that ends at the position
	// proves that the log is the same, if the file still has it.
	at, known, err := r.server.remembered(ctx, r.db, t.File, t.Pos)
	switch {
	case err != nil:
		return err
	case !known:
		if t.asked() == 4 { // no event was compared, so nothing proves yet that the log is the same
			d.mustPrecede, d.gtids = d.gtids, nil
		}
		return nil
	}
	if !at.Includes(d.gtids) || !t.Loose && !at.Equal(d.gtids) {
		d.kinship, d.why = another, otherBefore(at.String(), d.gtids.String())
	}
	return nil
}

// allLogged checks that the server's binlogs contain all of its transactions that are not in `read`.
func (r *resolver) allLogged(ctx context.Context, read *gtid.Set) (ruling, error) {
	lacking, err := r.server.unlogged(ctx, r.db, read)
	if err != nil || lacking.Empty() {
		return ruling{kinship: theSame}, err
	}
	return ruling{kinship: unlogged, why: fmt.Sprintf("the transactions %s were not read, and can't be read: they are "+
		"in none of the source's binlogs (gtid_purged). They came with a backup, or while the source ran without "+
		"log_bin or log_replica_updates", lacking)}, nil
}

func otherBefore(now, before string) string {
	return fmt.Sprintf("the position was preceded by the transactions %s, and now by %s", before, now)
}

// stillSame checks that this server's log is still the one being read. After a RESET, the new file may have the name of
// the deleted one. Then MySQL and MariaDB send only heartbeats until the new file is longer than the deleted one. So
// stillSame is called at heartbeats.
func (r *Reader) stillSame(ctx context.Context) error {
	s := r.stream
	if s.tx.open || s.until > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(3*dialTimeout, r.source.cfg.ReadTimeout))
	defer cancel()
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	file, pos, _, err := r.server.status(ctx, conn)
	if err != nil || file.number > s.file.number { // the server has begun a new file, and will send it
		return err
	}
	res := &resolver{source: r.source, db: conn, server: r.server, files: []logFile{{file, pos}}}
	at := s.here(gtidRun{}).placed()
	d, err := res.atPlace(ctx, at)
	if _, read := r.history.handedOut(); err == nil && d.kinship == theSame && read != nil {
		d, err = res.allLogged(ctx, read)
	}
	if err != nil {
		return err
	}
	return res.refusal(token{placed: at}, d)
}

// leaving records how far a binlog file was read before the next file began.
type leaving struct {
	placed
	shut bool // the file ended with an event that closes it; else the server died, or the file was deleted
}

// follows checks that the file that the server sends next belongs to the log being read: the server must still have the
// file that was read last, unchanged. Otherwise the next file may be of a new log, begun by RESET MASTER. If the last
// file was purged, it is enough that it ended with an event that closes it.
func (r *Reader) follows(ctx context.Context, l leaving) error {
	ctx, cancel := context.WithTimeout(ctx, min(3*dialTimeout, r.source.cfg.ReadTimeout))
	defer cancel()
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	res, err := newResolver(ctx, r.source, conn, r.server)
	if err != nil {
		return err
	}
	d, err := res.atPlace(ctx, l.placed)
	switch {
	case err != nil:
		return err
	case d.kinship == purged && l.shut:
		return nil
	case d.kinship == theSame && !l.shut:
		r.sayDied(l.placed)
	}
	return res.refusal(token{placed: l.placed}, d)
}

// elsewhere compares a position with another server than the one that it is from. Only GTIDs can prove anything there.
func (r *resolver) elsewhere(ctx context.Context, t token) (ruling, error) {
	no := func(why string) (ruling, error) { return ruling{kinship: stranger, why: why}, nil }
	gtids, err := gtid.Parse(r.server.flavor, t.GTID)
	if err != nil {
		return no("the position's GTIDs have the format of another kind of server")
	}
	if gtids.Empty() || !r.server.gtid() {
		return no("the position or the server has no GTIDs (on MySQL: gtid_mode=OFF)")
	}
	read, err := t.readGTIDs(gtids)
	if err != nil {
		return ruling{}, err
	}
	executed, err := r.server.executed(ctx, r.db)
	switch {
	case err != nil:
		return ruling{}, err
	case executed.Empty() && r.server.flavor == gtid.MariaDB:
		return no("its binlog has no GTIDs. Without log_slave_updates=ON, a replica does not log the transactions " +
			"that it replicates")
	case executed.Intersect(gtids).Empty():
		return no(fmt.Sprintf("the views include the transactions %s, and it has none of them, only %s", gtids,
			executed))
	case !executed.Includes(gtids):
		return ruling{kinship: behind, why: fmt.Sprintf("the views include %s, and the server has only %s", gtids,
			executed)}, nil
	case !executed.Includes(read):
		return ruling{kinship: behind, why: fmt.Sprintf("%s were read, and the server has only %s", read,
			executed)}, nil
	case t.Forked:
		return ruling{kinship: behind, why: "two servers gave different transactions the same number, and nothing " +
			"proves that this server has the earlier one"}, nil
	case t.Anonymous:
		return no("the last transactions that were read have no GTIDs (gtid_mode), and nothing proves that " +
			"this server has them")
	}
	return ruling{kinship: heir, gtids: gtids}, nil
}

// refusal returns an error if reading can't continue at the position of `t`, according to the decision `d`.
func (r *resolver) refusal(t token, d ruling) error {
	switch d.kinship {
	case theSame, heir:
		return nil
	case purged:
		return fmt.Errorf("%w: the checkpoint is at %s, but %s (the server purges binlogs after "+
			"binlog_expire_logs_seconds, in MySQL 5.7 expire_logs_days)", replicator.ErrLost, t, d.why)
	case unlogged:
		return fmt.Errorf("%w: the checkpoint is at %s, and %s. If the lost changes don't concern the views, stop the "+
			"program, run "+checkpointSet+" with a position after these changes, and start it again",
			replicator.ErrLost, t, d.why)
	case another:
		return errAnother(t, d.why)
	case behind:
		return replicator.Fatal(fmt.Errorf("%w: the source is now %s, which lacks transactions that were read from %s: %s. Views may show "+
			"them. Point the source at a server that has them", replicator.ErrLost, r.server.identity, t.Server, d.why))
	}
	return replicator.Fatal(fmt.Errorf("the checkpoint %s belongs to %s. The source is now %s, and no GTIDs prove "+
		"that it has the same changes: %s. Point the source at the old server. Or `replicator "+
		"rebuild "+remedy.Views+"` fills the views again from the new server. If you know up to which position of its "+
		"log the views are complete, stop the program, run "+checkpointSet+" with that position, and start it again",
		t, t.Server, r.server.identity, d.why))
}

// errAnother returns the error for a position that was read from a different log than the source's current one.
func errAnother(at token, why string) error {
	return replicator.Fatal(fmt.Errorf("%w: %s in the source's binlog is not the position that was read before: %s. "+
		"The source's binlogs were reset (RESET), or the source was restored or set back. If the views include "+
		"everything before some position of the new log, stop the program, run "+checkpointSet+" with that "+
		"position, and start it again", replicator.ErrLost, at, why))
}
