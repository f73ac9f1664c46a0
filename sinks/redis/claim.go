package redis

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"replicator/internal/wire"
)

// A claim is one thing that a cell puts into a view.
type claim struct {
	kind   byte
	key    string
	member string // of s, m, u and z; "": the entity's key
	amount string // of c and z, in decimal digits
	row    *row   // of h and j
}

// The kinds of claims, by which the scripts know them, too.
const (
	kindHash    = 'h'
	kindJSON    = 'j'
	kindSet     = 's' // a set of entities' keys
	kindMembers = 'm' // a set of other members: several entities may claim one
	kindUnique  = 'u'
	kindCounter = 'c'
	kindRanking = 'z'
	kindDead    = 'd' // no contribution: the cell is a dead letter in the view
	kindWaiting = 'w' // behind a kindDead: the claims, in their stored form, that wait for another source's row to go
)

// row is what a cell gives to a hash or a JSON object.
type row struct {
	fields []field
	digest digest // of names and values
	kept   bool   // the values are kept in the record, because other cells are merged with them
	whole  bool   // the values are at hand; else only the names
}

type field struct{ name, value string }

const digestSize = 16

type digest [digestSize]byte

// digester makes digests of fields. Whoever writes bodies could look for two of one digest, so they are cryptographic
// ones. Its memory is used again: sha256.Sum256 allocates a state for each. The zero value can be used.
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
	d.hash.Write(d.input) // never fails, as hash.Hash says
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

// parseClaims reads what appendClaims wrote.
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

// otherValues reports whether two lists of claims are of one row each, without kept values, and differ in the row's
// digest alone: key and names are the same.
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

// counts reports whether several entities may claim the same.
func (c *claim) counts() bool { return counts(c.kind) }

func counts(kind byte) bool {
	switch kind {
	case kindMembers, kindUnique, kindCounter, kindRanking:
		return true
	}
	return false
}

// counted is the amount that a claim stands for.
func (c *claim) counted() string { return cmp.Or(c.amount, "1") }

// added is how the scripts are told of a claim that is new: the amount, and in a ranking, which counts claims, that it
// is one more.
func (c *claim) added() string {
	if c.kind == kindRanking {
		return "+" + c.counted()
	}
	return c.counted()
}

// takenBack is how they are told that a claim is gone.
func (c *claim) takenBack() string {
	if c.kind == kindRanking {
		return "-" + c.counted()
	}
	return negated(c.counted())
}

// again is how they are told to show once more what they remember.
func (c *claim) again() string {
	if c.kind == kindRanking {
		return "="
	}
	return "0"
}

// barren is the amount of a kindWaiting whose claims can't be held.
const barren = "-"

// waiting are the claims of a cell that waits for another source's row to go: a dead letter, and what it would claim;
// why it can't, if that is so.
func waiting(claims []claim, why error) []claim {
	waits := claim{kind: kindWaiting}
	if why != nil {
		claims, waits.amount = nil, barren
	}
	for i := range claims {
		if r := claims[i].row; r != nil {
			r.kept = true // their values are not known by then
		}
	}
	waits.member = string(appendClaims(nil, claims))
	return []claim{{kind: kindDead}, waits}
}

// waits returns the stored form of the claims that wait, and whether they can be held; false if the cell doesn't wait.
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
