package canal

import (
	"encoding/json"
	"fmt"
	"strings"

	"replicator"
	"replicator/canal/gtid"
)

// token is what a Position's Token holds.
type token struct {
	Server string `json:"server,omitempty"` // server_uuid; MariaDB: see readServer
	placed
	GTID  string `json:"gtid,omitempty"` // all transactions before this place; "" where the server has none
	Epoch int    `json:"epoch,omitempty"`

	// Loose: GTID may lack some of the transactions before this place. MySQL's status shows the end of the binlog, and
	// the transactions that are committed; those between are in the binlog already. MariaDB does not tell those before
	// every place (see gtidAt), and then these are those that it had just before. It is enough for another server,
	// which then gives some of them again; on this one the set is found out by reading the file.
	Loose bool `json:"loose,omitempty"`

	// Forked: on MariaDB, a transaction before this place has no higher number than one of another server before it,
	// in one domain: the server had written something that the others did not get before it became their replica. GTID
	// names the last transaction alone, and who has that one need not have the other.
	Forked bool `json:"forked,omitempty"`

	// Anonymous: on MySQL, the last transaction that was read had no GTID, or the server gave none to new ones
	// (gtid_mode OFF_PERMISSIVE): no GTID tells who has it. One that has a later transaction has it, too, because
	// replicas apply in the order of the log.
	Anonymous bool `json:"anonymous,omitempty"`

	// Skip: transactions of GTID may still come after this place (it was found by GTID on another server, whose order
	// of transactions may differ): they are dropped.
	Skip bool `json:"skip,omitempty"`

	// Read is how far was read when the position was made: some of what lies between may be in a sink already, so that a
	// server that lacks it can't be the source.
	Read *read `json:"read,omitempty"`

	// Run is the program's that made the position: it knows Read to be all that was read. Another one, which finds the
	// position in a store, does not: whoever made it may have read on before he was killed.
	Run string `json:"run,omitempty"`

	// Layouts has the digest of the layout of each table that was read, "" where that was not known: see layouts. It is
	// nil where nothing is known of any table.
	Layouts map[string]string `json:"layouts,omitempty"`

	others []token // the later positions that reading begins at this one for
}

// read is a place, not always between two transactions, with the transactions that were read beyond the position, begun
// ones too.
type read struct {
	placed
	GTID string `json:"gtid,omitempty"`

	// Older are transactions, not all of them behind the position, that were or may have been read on another server and
	// not yet on this one: sinks may hold them with Orders of an older epoch.
	Older string `json:"older,omitempty"`

	// Unsure are transactions that an earlier run of the program may have read, and of which nothing is known: all that
	// there were when this one began.
	Unsure string `json:"unsure,omitempty"`
}

// withUnsure adds what an earlier run may have read, unless all of it is before the place.
func (r *read) withUnsure(unsure, before *gtid.Set) *read {
	if !notAllIn(unsure, before) {
		return r
	}
	var further read
	if r != nil {
		further = *r
	}
	further.Unsure = unsure.String()
	return &further
}

// readGTIDs are all transactions of which something was read, given those before the position.
func (t token) readGTIDs(before *gtid.Set) (*gtid.Set, error) {
	if t.Read == nil {
		return before, nil
	}
	further, err := gtid.Parse(before.Flavor, t.Read.GTID)
	if err != nil {
		return nil, replicator.Fatal(fmt.Errorf("the checkpoint's position: %w", err))
	}
	all := before.Clone()
	all.Join(further)
	return all, nil
}

func (t token) position() (replicator.Position, error) {
	file, err := parseFileName(t.File)
	if err != nil {
		return replicator.Position{}, err
	}
	if t.Pos > maxAddress {
		return replicator.Position{}, replicator.Fatal(fmt.Errorf("position %s:%d is beyond %d bytes",
			t.File, t.Pos, maxAddress))
	}
	text, err := json.Marshal(t)
	if err != nil {
		return replicator.Position{}, err
	}
	return replicator.Position{Order: orderOf(t.Epoch, file.number, t.Pos), Token: string(text)}, nil
}

func parseToken(text string) (token, error) {
	var t token
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return t, replicator.Fatal(fmt.Errorf("the checkpoint's position is not one of a MySQL or MariaDB source: %w", err))
	}
	if _, err := parseFileName(t.File); err != nil {
		return t, replicator.Fatal(fmt.Errorf("the checkpoint's position: %w", err))
	}
	return t, nil
}

func (t token) String() string { return fmt.Sprintf("%s:%d", t.File, t.Pos) }

// Describe shows a position's token to a person: FILE:POS and, where there are any, the GTIDs. What isn't a token of
// this package is returned as it is.
func Describe(text string) string {
	var t token
	if err := json.Unmarshal([]byte(text), &t); err != nil || t.File == "" {
		return text
	}
	if t.GTID == "" {
		return t.String()
	}
	return t.String() + " " + t.GTID
}

// Server names the server that a position's token is of; "" if it names none.
func Server(text string) string {
	var t token
	_ = json.Unmarshal([]byte(text), &t) // what isn't a token names none
	return t.Server
}

// Covers reports, of a Position's token alone, whether all that a fence names (a GTID set, or FILE:POS) was committed
// at or before it: for those who know how far somebody else has read. ErrFence if it is neither.
func Covers(text, fence string) (bool, error) {
	t, err := parseToken(text)
	if err != nil {
		return false, err
	}
	if isFilePos(fence) {
		return t.includesFilePos(fence)
	}
	want, err := parseAnyGTIDs(fence)
	if err != nil {
		return false, err
	}
	have, err := gtid.Parse(want.Flavor, t.GTID)
	if err != nil {
		return false, fmt.Errorf("%w: the source has GTIDs of another form", ErrFence)
	}
	return have.Includes(want), nil
}

// Includes implements replicator.Source. Only GTIDs tell that of two servers.
func (s *Source) Includes(p, q replicator.Position) bool {
	at, err := parseToken(q.Token)
	if err != nil || at.GTID == "" {
		return false
	}
	includes, err := Covers(p.Token, at.GTID)
	return err == nil && includes
}

// IsFence is nil if a text has the form of a fence of some source, FILE:POS or a GTID set, and ErrFence if it has not.
func IsFence(text string) error {
	if isFilePos(text) {
		if _, _, err := parseFilePos(text); err != nil {
			return fmt.Errorf("%w: %w", ErrFence, err)
		}
		return nil
	}
	_, err := parseAnyGTIDs(text)
	return err
}

// parseAnyGTIDs reads a GTID set of a server that nobody has asked which it is: only MySQL's have colons. What is none
// may have been meant as either.
func parseAnyGTIDs(text string) (*gtid.Set, error) {
	flavor := gtid.MariaDB
	if strings.Contains(text, ":") {
		flavor = gtid.MySQL
	}
	set, err := gtid.Parse(flavor, text)
	if err != nil {
		return nil, fmt.Errorf("%w: %q is neither; GTIDs are uuid:1-3 (MySQL) or domain-server-sequence (MariaDB)",
			ErrFence, text)
	}
	return set, nil
}

// includesFilePos reports whether a place of the same server stands at or before t.
func (t token) includesFilePos(fence string) (bool, error) {
	file, pos, err := parseFilePos(fence)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrFence, err)
	}
	at, err := parseFileName(t.File)
	if err != nil {
		return false, err
	}
	if file.base() != at.base() {
		return false, fmt.Errorf("%w: the source's binlogs are called %s, not %s", ErrFence, at.base(), file.base())
	}
	return at.number > file.number || at.number == file.number && t.Pos >= pos, nil
}
