package redis

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"replicator/internal/wire"
)

// A claim is one item that a cell (the rows of one key) contributes to a view: a hash, a member of a set, an amount.
type claim struct {
	kind   byte
	key    string
	member string // in a set, a ranking or a unique value: the member; "": the entity's key is the member
	amount string // the amount of a counter or a ranking, in decimal digits
	row    *row
}

// The kinds of claims (items that a cell contributes to a view). Scripts and stored records use the same letters.
const (
	kindHash    = 'h'
	kindJSON    = 'j'
	kindSet     = 's' // a set of the entities' own keys
	kindMembers = 'm' // a set of members that are not entities' keys: several entities may contribute the same one
	kindUnique  = 'u'
	kindCounter = 'c'
	kindRanking = 'z'
	kindDead    = 'd' // no contribution: the cell is a dead letter in the view
	kindWaiting = 'w' // follows kindDead if the cell's row waits: `member` encodes its contribution (see waiting)
)

// row is a cell's contribution to a hash or a JSON object.
type row struct {
	fields []field
	digest digest
	kept   bool // the entity's record has the values, too: a change of another cell with the same key may need them
	whole  bool // the fields' values are known; otherwise only their names are
}

type field struct{ name, value string }

const digestSize = 16

type digest [digestSize]byte

// digester computes digests of fields. They are cryptographic, so that nobody can construct rows with equal digests. It
// reuses its memory, unlike sha256.Sum256.
type digester struct {
	hash  hash.Hash
	input []byte
	whole []byte
}

func (d *digester) begin() { d.input = d.input[:0] }

func (d *digester) add(f field) { d.input = wire.AppendText(wire.AppendText(d.input, f.name), f.value) }

func (d *digester) sum() digest {
	if d.hash == nil {
		d.hash = sha256.New()
	}
	d.hash.Reset()
	d.hash.Write(d.input) // Write never fails, as hash.Hash says
	d.whole = d.hash.Sum(d.whole[:0])
	return digest(d.whole[:digestSize])
}

func appendClaims(b []byte, claims []claim) []byte {
	for _, c := range claims {
		b = wire.AppendText(append(b, c.kind), c.key)
		switch c.kind {
		case kindHash, kindJSON:
			b = append(b, c.row.digest[:]...)
			kept := byte(0)
			if c.row.kept {
				kept = 1
			}
			b = append(b, kept)
			b = binary.AppendUvarint(b, uint64(len(c.row.fields)))
			for _, f := range c.row.fields {
				b = wire.AppendText(b, f.name)
				if c.row.kept {
					b = wire.AppendText(b, f.value)
				}
			}
		default:
			b = wire.AppendText(wire.AppendText(b, c.member), c.amount)
		}
	}
	return b
}

func parseClaims(s string) ([]claim, error) { return new(arena).parseClaims(s) }

func (a *arena) parseClaims(s string) ([]claim, error) {
	in := wire.NewReader(s)
	var claims []claim
	for in.More() {
		c := claim{kind: in.Byte(), key: in.Text()}
		switch c.kind {
		case kindHash, kindJSON:
			c.row = a.rows.new()
			copy(c.row.digest[:], in.Bytes(digestSize))
			switch in.Byte() {
			case 0:
			case 1:
				c.row.kept, c.row.whole = true, true
			default:
				in.Fail()
			}
			n := in.Count()
			c.row.fields = a.fields.grow(c.row.fields, min(n, few))
			for ; n > 0 && !in.Bad(); n-- {
				f := field{name: in.Text()}
				if c.row.kept {
					f.value = in.Text()
				}
				c.row.fields = append(c.row.fields, f)
			}
		case kindSet, kindMembers, kindUnique, kindCounter, kindRanking, kindDead, kindWaiting:
			c.member, c.amount = in.Text(), in.Text()
		default:
			in.Fail()
		}
		claims = append(a.claims.grow(claims, 1), c)
	}
	if in.Bad() {
		return nil, errDamaged
	}
	return claims, nil
}

// otherValues reports whether two encoded contributions are rows that can differ only in the digest of their values. It
// returns false for rows that are stored with their values (row.kept).
func otherValues(a string, b []byte) bool {
	in := wire.NewReader(a)
	if kind := in.Byte(); kind != kindHash && kind != kindJSON || len(a) != len(b) {
		return false
	}
	in.Text()
	at := len(a) - len(in.Rest())
	after := at + digestSize
	return !in.Bad() && after < len(a) && a[after] == 0 && a[:at] == string(b[:at]) && a[after:] == string(b[after:])
}

// counts reports whether several entities may contribute the same item, so that it must be counted or added up.
func (c *claim) counts() bool { return counts(c.kind) }

func counts(kind byte) bool {
	switch kind {
	case kindMembers, kindUnique, kindCounter, kindRanking:
		return true
	}
	return false
}

func (c *claim) counted() string { return cmp.Or(c.amount, "1") }

// added returns the script's argument that adds the claim (what the cell contributes) to a sum. In a ranking, "+" also
// raises the number of contributions by one.
func (c *claim) added() string {
	if c.kind == kindRanking {
		return "+" + c.counted()
	}
	return c.counted()
}

// takenBack returns the script's argument that subtracts the claim (what the cell contributed) from a sum.
func (c *claim) takenBack() string {
	if c.kind == kindRanking {
		return "-" + c.counted()
	}
	return negated(c.counted())
}

// addingNothing returns the script's argument that leaves a sum as it is, but makes the script write the sum to the
// view's key again.
func (c *claim) addingNothing() string {
	if c.kind == kindRanking {
		return "="
	}
	return "0"
}

// barren is the `amount` of a claim of kindWaiting if the view can't hold the row that waits. Once the other source's
// row of the cell is deleted, the view shows nothing for the cell.
const barren = "-"

// waiting returns what a record stores for a cell whose row waits until another source's row of the cell is deleted: an
// item of kindDead, and one of kindWaiting. The latter encodes `claims`, which the cell contributes after the deletion.
// `why` is the error if the view can't hold `claims`; nil: it can.
func waiting(claims []claim, why error) []claim {
	waits := claim{kind: kindWaiting}
	if why != nil {
		claims, waits.amount = nil, barren
	}
	for i := range claims {
		if r := claims[i].row; r != nil {
			r.kept = true // when the view shows the row later, its values are not read from the source again
		}
	}
	waits.member = string(appendClaims(nil, claims))
	return []claim{{kind: kindDead}, waits}
}

// waits returns the encoded contribution that the cell makes once another source's row of the cell is deleted. held is
// false if the view can't hold this contribution. waits is false if the cell doesn't wait.
func (v *viewRecord) waits() (claims string, held, waits bool) {
	if !v.dead() {
		return "", false, false
	}
	in := wire.NewReader(v.claims)
	in.Byte()
	for range 3 {
		in.Text()
	}
	if !in.More() || in.Byte() != kindWaiting {
		return "", false, false
	}
	in.Text()
	claims = in.Text()
	return claims, in.Text() != barren, true
}
