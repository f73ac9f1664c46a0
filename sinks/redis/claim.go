package redis

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"replicator/internal/wire"
)

// A claim is one item that a cell puts into a view.
type claim struct {
	kind   byte
	key    string
	member string // the member of a set, a unique value or a ranking; "": the entity's key
	amount string // the amount of a counter or a ranking, in decimal digits
	row    *row   // the fields of a hash or a JSON object
}

// The kinds of claims. The scripts use the same letters.
const (
	kindHash    = 'h'
	kindJSON    = 'j'
	kindSet     = 's' // a set of entities' keys
	kindMembers = 'm' // a set of other members: several entities may claim the same member
	kindUnique  = 'u'
	kindCounter = 'c'
	kindRanking = 'z'
	kindDead    = 'd' // no contribution: the cell is a dead letter in the view
	kindWaiting = 'w' // after a kindDead: member has the claims to show once another source's row is deleted
)

// row is a cell's contribution to a hash or a JSON object.
type row struct {
	fields []field
	digest digest // the digest of the fields' names and values
	kept   bool   // the record also has the values, because the view merges rows, or shows another source's row instead
	whole  bool   // the fields' values are known; otherwise only their names are
}

type field struct{ name, value string }

const digestSize = 16

type digest [digestSize]byte

// digester makes digests of fields. They are cryptographic, so that authors of bodies can't construct collisions. It
// reuses its memory, because sha256.Sum256 allocates a state for each digest. The zero value is usable.
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

// parseClaims parses the result of appendClaims.
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

// otherValues reports whether two lists of claims, in stored form, differ at most in a row's values. Each list must be
// a single row with the same key and the same field names. The record must not keep the values, so the digests are all
// that differs.
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

// counts reports whether several entities may claim the same item.
func (c *claim) counts() bool { return counts(c.kind) }

func counts(kind byte) bool {
	switch kind {
	case kindMembers, kindUnique, kindCounter, kindRanking:
		return true
	}
	return false
}

// counted returns the claim's amount; "1" if it has none.
func (c *claim) counted() string { return cmp.Or(c.amount, "1") }

// added returns the amount of a new claim in the form that the scripts take. In a ranking, the "+" before the amount
// also counts one more claim.
func (c *claim) added() string {
	if c.kind == kindRanking {
		return "+" + c.counted()
	}
	return c.counted()
}

// takenBack returns the amount of a removed claim in the form that the scripts take.
func (c *claim) takenBack() string {
	if c.kind == kindRanking {
		return "-" + c.counted()
	}
	return negated(c.counted())
}

// again returns an amount that adds nothing. It makes the scripts write the stored sum to the key again.
func (c *claim) again() string {
	if c.kind == kindRanking {
		return "="
	}
	return "0"
}

// barren is the amount of a kindWaiting claim if the view can't hold the cell's values. The claim then contains no
// claims to show: when the other source's row is deleted, the view shows nothing for the cell.
const barren = "-"

// waiting returns the claims of a cell that waits until another source's row is deleted: a dead letter, and the claims
// that the cell will then have. why is the reason if the view can't hold these claims, or nil.
func waiting(claims []claim, why error) []claim {
	waits := claim{kind: kindWaiting}
	if why != nil {
		claims, waits.amount = nil, barren
	}
	for i := range claims {
		if r := claims[i].row; r != nil {
			r.kept = true // when the view shows the row later, the values are not read from the source again
		}
	}
	waits.member = string(appendClaims(nil, claims))
	return []claim{{kind: kindDead}, waits}
}

// waits returns, in stored form, the claims of a cell that waits until another source's row is deleted. held is false
// if the view can't hold the cell's values. waits is false if the cell doesn't wait.
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
