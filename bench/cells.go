package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// workload is a sequence of rows of the source table "cell". A row is computed from its number and never stored, so
// that writers and checks use the same rows without memory for a million bodies.
type workload struct {
	entities int
	body     int   // the size of a body in bytes; bodies with long properties are larger
	begin    int64 // the version (ref_key) of the first row, in nanoseconds
	order    order

	emailOnly bool // bodies contain the email, but no other property that views show
}

// order says to which user each row belongs, and how the users' emails sort.
type order uint8

const (
	scattered order = iota // each row belongs to a random user; the emails are in no order
	round                  // the users take turns: a row of each, then again; later rows have greater emails
	phased                 // the users take turns, too; each pass over them is one of the phases below
)

// The phases of a workload whose `order` is `phased`. In the last phase, the program writes only the newest row of each
// batch, because all rows belong to one user. In the other phases, it writes every row.
const (
	newPhase       = iota // the first row of each user
	movedPhase            // a newer row of each user, with a different email: the index entry moves
	unchangedPhase        // a newer row of each user with the same content: only the version rises
	hotPhase              // as many rows as in the other phases, all of one user
)

var phaseNames = [...]string{newPhase: "distinct", movedPhase: "moved", unchangedPhase: "unchanged", hotPhase: "hot"}

// cell is one row of the source table named "cell": one version of a user. Its column "column_name" contains "users".
type cell struct {
	number  int
	content int // the number from which the body is made: the row's own, or that of an older row with the same body
	entity  int
	ref     int64
}

// user has the data of one user, as far as views show them. A row's body contains these data.
type user struct {
	key      [16]byte
	username string
	email    string
	phone    int
	password string
	activate bool
}

const (
	step = 1_000         // between the versions of two rows, in nanoseconds
	late = 50_000 * step // how far a late row's version is set back, in nanoseconds
)

func (w *workload) at(number int) cell {
	c := cell{number: number, content: number, ref: w.begin + int64(number)*step}
	switch w.order {
	case round:
		c.entity = number % w.entities
		return c
	case phased:
		c.entity = number % w.entities
		switch number / w.entities {
		case unchangedPhase:
			c.content -= w.entities
		case hotPhase:
			c.entity = 0
		}
		return c
	}
	h := mix(uint64(number))
	c.entity = int(h % uint64(w.entities))
	if h>>32%100 == 0 {
		c.ref -= late - 1 // 1 less, so that no other row has this version
	}
	return c
}

// newest returns the number of each user's newest row among the first n. It is -1 for a user without a row.
func (w *workload) newest(n int) []int {
	newest := make([]int, w.entities)
	for i := range newest {
		newest[i] = -1
	}
	for i := range n {
		c := w.at(i)
		if old := newest[c.entity]; old < 0 || w.at(old).ref < c.ref {
			newest[c.entity] = i
		}
	}
	return newest
}

// present returns the newest rows of all users with a row among the first n.
func (w *workload) present(n int) []cell {
	var all []cell
	for _, number := range w.newest(n) {
		if number >= 0 {
			all = append(all, w.at(number))
		}
	}
	return all
}

// key returns a user's row_key. Some keys end in zero bytes, which binlogs omit.
func (w *workload) key(entity int) (key [16]byte) {
	h := mix(uint64(entity) + 1<<40)
	binary.BigEndian.PutUint64(key[:], h)
	binary.BigEndian.PutUint64(key[8:], uint64(entity)) // makes keys unique
	if h%64 == 0 {
		copy(key[8:], key[12:])
		clear(key[12:])
	}
	return key
}

// user returns a row's content: the email is new in every version, phone and activate change now and then, password
// rarely, and the name never.
func (w *workload) user(c cell) user {
	h := mix(uint64(c.content) + 1<<41)
	e := mix(uint64(c.entity) + 1<<42)
	u := user{
		key:      w.key(c.entity),
		username: fmt.Sprintf("user%07d", c.entity),
		phone:    100_000_000 + int(e%900_000_000),
		activate: h%10 != 0,
	}
	if w.order == round {
		u.email = fmt.Sprintf("%010d@example.com", c.content)
	} else {
		u.email = fmt.Sprintf("%08x.%d@example.com", uint32(h), c.content)
	}
	if h>>8%4 == 0 {
		u.phone++
	}
	salt := e
	if h>>16%8 == 0 {
		salt = h
	}
	u.password = fmt.Sprintf("$2a$10$%016x%016x%016x%05x", salt, mix(salt), mix(salt+1), mix(salt+2)&0xfffff)
	return u
}

var cities = [...]string{"San Francisco", "New York", "Zürich", "Nairobi", "Hyderabad", "São Paulo", "Osaka", "Tromsø"}

// appendBody appends the row's body: JSON with the properties that views show, and others. None of its texts needs
// escapes.
func (w *workload) appendBody(b []byte, c cell) []byte {
	from := len(b)
	u := w.user(c)
	if w.emailOnly {
		b = append(b, `{"email":"`+u.email+`","bio":"`...)
		return w.appendBio(b, from)
	}
	id := hex.EncodeToString(u.key[:])
	b = append(b, `{"id":"`...)
	b = append(b, id[:8]+"-"+id[8:12]+"-"+id[12:16]+"-"+id[16:20]+"-"+id[20:]...)
	b = append(b, `","username":"`...)
	b = append(b, u.username...)
	b = append(b, `","email":"`...)
	b = append(b, u.email...)
	b = append(b, `","phone":`...)
	b = strconv.AppendInt(b, int64(u.phone), 10)
	b = append(b, `,"password":"`...)
	b = append(b, u.password...)
	b = append(b, `","activate":`...)
	b = strconv.AppendBool(b, u.activate)
	b = append(b, `,"address":{"city":"`...)
	b = append(b, cities[c.entity%len(cities)]...)
	b = append(b, `"},"bio":"`...)
	return w.appendBio(b, from)
}

// appendBio appends the text of the property bio and the body's end to b. The body begins at b[from] and gets the
// workload's body size.
func (w *workload) appendBio(b []byte, from int) []byte {
	for n := 0; len(b)-from < w.body-len(`"}`); n++ {
		b = append(b, "never trust a view you did not verify "[n%38])
	}
	return append(b, `"}`...)
}

// mix is splitmix64's finisher: it returns numbers that look random and are the same in every run.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
