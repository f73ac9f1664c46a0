package canal

import (
	"encoding/json"
	"fmt"
	"strings"

	"replicator"
	"replicator/canal/gtid"
)

// token is the contents of a Position's Token.
type token struct {
	Server string `json:"server,omitempty"` // server_uuid; MariaDB: see readServer
	placed
	GTID  string `json:"gtid,omitempty"` // all transactions before this place; "" where the server has none
	Epoch int    `json:"epoch,omitempty"`

	// Loose: GTID may lack some of the transactions before this place. MySQL's status has the end of the binlog and the
	// committed transactions, but not those in between, which are already in the binlog. MariaDB does not know the
	// GTIDs before every place (see gtidAt); GTID then has those from just before. That is enough for another server,
	// which repeats some transactions. On this server, reading the file completes the set.
	Loose bool `json:"loose,omitempty"`

	// Forked: on MariaDB, within one domain, a transaction before this place has no higher number than an earlier one
	// of another server. The server had written something that the others did not get before it became their replica.
	// GTID names only the last transaction, and a server that has that one may lack the other.
	Forked bool `json:"forked,omitempty"`

	// Anonymous: on MySQL, the last transaction that was read had no GTID, or the server gave none to new ones
	// (gtid_mode OFF_PERMISSIVE), so no GTID shows which servers have it. A server with a later transaction has it,
	// too, because replicas apply in the order of the log.
	Anonymous bool `json:"anonymous,omitempty"`

	// Skip: transactions of GTID may still follow this place, and are dropped. The place was found by GTID on another
	// server, whose order of transactions may differ.
	Skip bool `json:"skip,omitempty"`

	// Read is how far had been read when the position was made. A sink may already have some changes in between, so a
	// server that lacks them can't be the source.
	Read *read `json:"read,omitempty"`

	// Run identifies the program run that made the position. That run knows that Read is everything that was read. A
	// later run, which finds the position in a store, does not: the earlier one may have read on before it was killed.
	Run string `json:"run,omitempty"`

	// Layouts has the digest of the layout of each table that was read, "" if it was unknown: see layouts. It is nil if
	// nothing is known of any table.
	Layouts map[string]string `json:"layouts,omitempty"`

	others []token // the later positions for whose sake reading begins at this one
}

// read is a place, not always between two transactions, and the transactions that were read beyond the position,
// including unfinished ones.
type read struct {
	placed
	GTID string `json:"gtid,omitempty"`

	// Older are transactions that were or may have been read on another server and not yet on this one. Not all of them
	// are after the position. Sinks may have them with Orders of an older epoch.
	Older string `json:"older,omitempty"`

	// Unsure are transactions that an earlier run of the program may have read: all that existed when this run began.
	Unsure string `json:"unsure,omitempty"`
}

// withUnsure adds the transactions that an earlier run may have read, unless all of them are before the place.
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

// readGTIDs are all transactions of which any part was read, given those before the position.
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

// Describe shows a position's token to people: FILE:POS and any GTIDs. A text that isn't a token of this package is
// returned unchanged.
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

// Server names the server of a position's token; "" if it names none.
func Server(text string) string {
	var t token
	_ = json.Unmarshal([]byte(text), &t) // what isn't a token names none
	return t.Server
}

// Covers reports, from a Position's token alone, whether everything that a fence names (a GTID set, or FILE:POS) was
// committed at or before it. It serves callers that know another process's position. It returns ErrFence for any other
// text.
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

// Includes implements replicator.Source. Between two servers only GTIDs can tell.
func (s *Source) Includes(p, q replicator.Position) bool {
	at, err := parseToken(q.Token)
	if err != nil || at.GTID == "" {
		return false
	}
	includes, err := Covers(p.Token, at.GTID)
	return err == nil && includes
}

// IsFence returns ErrFence unless a text has the form of a fence of some source, FILE:POS or a GTID set.
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

// parseAnyGTIDs parses a GTID set of an unknown kind of server: only MySQL's have colons. The error mentions both
// forms.
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

// includesFilePos reports whether a place of the same server is at or before t.
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
