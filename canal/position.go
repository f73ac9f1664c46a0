package canal

import (
	"encoding/json"
	"fmt"
	"strings"

	"replicator"
	"replicator/canal/gtid"
)

// token is the decoded form of the text Position.Token: a place in the binlog, and what proves which binlog it is.
type token struct {
	Server string `json:"server,omitempty"` // server_uuid; on MariaDB, which has none, its id, host and port
	placed
	GTID  string `json:"gtid,omitempty"` // all transactions before this position; "" if the server has no GTIDs
	Epoch int    `json:"epoch,omitempty"`

	// Loose means that field GTID may lack some of the transactions before the position, because the server could not
	// list them exactly. On another server, reading then repeats the transactions that GTID lacks. On the same server,
	// reading the binlog file up to the position completes GTID.
	Loose bool `json:"loose,omitempty"`

	// Forked means that two MariaDB servers numbered transactions of a domain independently. Field GTID has only the last
	// transaction of each domain. So a server that has that transaction may lack earlier ones.
	Forked bool `json:"forked,omitempty"`

	// Anonymous means that the last transaction that was read has no GTID, or that MySQL gives new transactions none
	// (gtid_mode = OFF or OFF_PERMISSIVE). So GTIDs don't show which servers have that transaction.
	Anonymous bool `json:"anonymous,omitempty"`

	// Skip means that transactions in GTID may follow the position, and that reading drops them. The position was found by
	// GTID on another server, whose log may have the transactions in a different order.
	Skip bool `json:"skip,omitempty"`

	// Read says how far the log had been read when the position was made. A sink may already have some of the changes
	// between the position and that point. So a server that lacks these changes can't be the source.
	Read *read `json:"read,omitempty"`

	// Run identifies the process of replicator that made the position. In that process, field Read covers all that was
	// read. A later process must assume that the earlier one read more before it was killed.
	Run string `json:"run,omitempty"`

	// Layouts has a digest of each table's columns at the position, by the table's name. A digest is "" if the columns
	// were unknown. The map is nil if no table's columns were known.
	Layouts map[string]string `json:"layouts,omitempty"`

	others []token // if a reader begins here (resolver.start): the tokens of all positions that Source.Open was given
}

// read is how far the log was read beyond a position. It has a log position, which may be inside a transaction, and the
// transactions that were read after the position, including unfinished ones.
type read struct {
	placed
	GTID string `json:"gtid,omitempty"`

	// Older has transactions that were read on another server, and not yet on this one. Sinks may have their changes, with
	// Orders of an older epoch.
	Older string `json:"older,omitempty"`

	// Unsure has transactions that an earlier process may have read after it saved the position. Nothing says how far
	// it read. So these are all transactions that the server had executed when the next process began at the position.
	Unsure string `json:"unsure,omitempty"`
}

// withUnsure returns a copy of r whose field Unsure is `unsure`: transactions that an earlier process may have read. It
// returns r itself if `before`, the transactions before the position, includes all of them.
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

// readGTIDs returns all transactions of which any part was read: those before the position, which the caller passes in
// `before`, and those read beyond it.
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
		return replicator.Position{},
			replicator.Fatal(fmt.Errorf("position %s:%d is above %d, the largest supported position",
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
		return t, replicator.Fatal(fmt.Errorf("the checkpoint's position is not a position of a MySQL or MariaDB "+
			"source: %w", err))
	}
	if _, err := parseFileName(t.File); err != nil {
		return t, replicator.Fatal(fmt.Errorf("the checkpoint's position: %w", err))
	}
	return t, nil
}

func (t token) String() string { return fmt.Sprintf("%s:%d", t.File, t.Pos) }

// Describe formats a position's token for people: FILE:POS and any GTIDs. A text that isn't a token of this package is
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

// Server names the server of a position's token; "" if the token names none.
func Server(text string) string {
	var t token
	_ = json.Unmarshal([]byte(text), &t) // a text that isn't a token names no server
	return t.Server
}

// Covers reports whether the position with the token `text` includes everything that a fence (a GTID set, or FILE:POS)
// names. It asks no server. Callers use it for another process's position. If fence is anything else, the error is
// ErrFence.
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
		return false, fmt.Errorf("%w: either these are GTIDs of MySQL and the source is MariaDB, or the reverse",
			ErrFence)
	}
	return have.Includes(want), nil
}

// Includes implements replicator.Source. It compares GTIDs, because the positions may be from different servers.
func (s *Source) Includes(p, q replicator.Position) bool {
	at, err := parseToken(q.Token)
	if err != nil || at.GTID == "" {
		return false
	}
	includes, err := Covers(p.Token, at.GTID)
	return err == nil && includes
}

// IsFence returns nil if a text names a position: FILE:POS or a GTID set. Otherwise it returns ErrFence.
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

// parseAnyGTIDs parses a GTID set of MySQL or MariaDB: only MySQL's contain colons. Its error mentions both forms.
func parseAnyGTIDs(text string) (*gtid.Set, error) {
	flavor := gtid.MariaDB
	if strings.Contains(text, ":") {
		flavor = gtid.MySQL
	}
	set, err := gtid.Parse(flavor, text)
	if err != nil {
		return nil, fmt.Errorf("%w: %q is neither. GTIDs are uuid:1-3 (MySQL) or domain-server-sequence (MariaDB)",
			ErrFence, text)
	}
	return set, nil
}

// includesFilePos reports whether fence, a FILE:POS of the same server, is at or before t.
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
