// Package gtid has sets of MySQL's and MariaDB's global transaction ids. A set says which transactions a server has
// executed, or a reader has read.
package gtid

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Flavor is the kind of server: MySQL or MariaDB.
type Flavor int

const (
	MySQL Flavor = iota + 1
	MariaDB
)

func (f Flavor) String() string {
	if f == MariaDB {
		return "mariadb"
	}
	return "mysql"
}

// Run is a range of consecutive transaction numbers, First ≤ Last.
type Run struct{ First, Last int64 }

// Set is a set of transactions. On MySQL, Runs maps "uuid" or "uuid:tag" to separate, ascending runs of numbers. On
// MariaDB, Runs maps each domain to one run that ends at the domain's last sequence number, and Servers has the server
// that wrote that last transaction.
//
// go-mysql's sets lose tags (MySQL ≥ 8.3), and adding to a set with thousands of runs is slow.
type Set struct {
	Flavor  Flavor
	Runs    map[string][]Run
	Servers map[string]string // MariaDB: domain → id of the server that wrote its last transaction
}

// New returns an empty set.
func New(f Flavor) *Set {
	return &Set{Flavor: f, Runs: map[string][]Run{}, Servers: map[string]string{}}
}

// Parse parses a GTID set as the server prints it.
func Parse(f Flavor, text string) (*Set, error) {
	s := New(f)
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		var err error
		if f == MariaDB {
			err = s.parseMaria(part)
		} else {
			err = s.parseMySQL(part)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// parseMaria reads "domain-server-sequence".
func (s *Set) parseMaria(part string) error {
	f := strings.Split(part, "-")
	if len(f) != 3 {
		return fmt.Errorf("%q is not a MariaDB GTID (domain-server-sequence)", part)
	}
	for _, n := range f[:2] {
		if _, err := strconv.ParseUint(n, 10, 32); err != nil {
			return fmt.Errorf("%q is not a MariaDB GTID (domain-server-sequence)", part)
		}
	}
	seq, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || seq < 0 {
		return fmt.Errorf("%q is not a MariaDB GTID (domain-server-sequence)", part)
	}
	s.AddMaria(f[0], f[1], seq)
	return nil
}

// parseMySQL reads "uuid:1-3:5", "uuid:tag:1-3" and "uuid:1-3:tag:1:other:7-9".
func (s *Set) parseMySQL(part string) error {
	f := strings.Split(part, ":")
	uuid := strings.ToLower(strings.TrimSpace(f[0]))
	if !IsUUID(uuid) || len(f) < 2 {
		return fmt.Errorf("%q is not a GTID set (uuid:1-3)", part)
	}
	sid := uuid
	for _, item := range f[1:] {
		item = strings.TrimSpace(item)
		if item == "" {
			return fmt.Errorf("%q is not a GTID set (uuid:1-3)", part)
		}
		if item[0] < '0' || item[0] > '9' {
			sid = uuid + ":" + strings.ToLower(item)
			continue
		}
		from, to, isRange := strings.Cut(item, "-")
		first, err := strconv.ParseInt(from, 10, 64)
		if err != nil || first < 1 {
			return fmt.Errorf("%q is not a GTID set (uuid:1-3)", part)
		}
		last := first
		if isRange {
			if last, err = strconv.ParseInt(to, 10, 64); err != nil || last < first {
				return fmt.Errorf("%q is not a GTID set (uuid:1-3)", part)
			}
		}
		s.Add(sid, Run{first, last})
	}
	return nil
}

// IsUUID reports whether s is a UUID in lowercase, with hyphens.
func IsUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'f':
		default:
			return false
		}
	}
	return true
}

// Add adds a run of transactions of a MySQL UUID. It tries first to extend the UUID's last run, because that is nearly
// always possible.
func (s *Set) Add(sid string, r Run) {
	runs := s.Runs[sid]
	if n := len(runs); n > 0 && runs[n-1].Last+1 == r.First {
		runs[n-1].Last = r.Last
		return
	}
	i, _ := slices.BinarySearchFunc(runs, r.First, func(have Run, first int64) int {
		if have.Last+1 < first {
			return -1
		}
		return 1
	})
	j := i
	for j < len(runs) && runs[j].First <= r.Last+1 {
		r.First, r.Last = min(r.First, runs[j].First), max(r.Last, runs[j].Last)
		j++
	}
	s.Runs[sid] = slices.Replace(runs, i, j, r)
}

// AddMaria makes seq, written by server, a MariaDB domain's last transaction. The set then has all transactions of the
// domain up to seq, and none above.
func (s *Set) AddMaria(domain, server string, seq int64) {
	if runs := s.Runs[domain]; len(runs) == 1 {
		runs[0].Last = seq
	} else {
		s.Runs[domain] = []Run{{1, seq}}
	}
	s.Servers[domain] = server
}

// Keep removes the UUIDs (MariaDB: domains) of which other has no transaction.
func (s *Set) Keep(other *Set) {
	for sid := range s.Runs {
		if len(other.Runs[sid]) == 0 {
			delete(s.Runs, sid)
			delete(s.Servers, sid)
		}
	}
}

// Contains reports whether the set has transaction n of a UUID (MariaDB: of a domain).
func (s *Set) Contains(sid string, n int64) bool {
	runs := s.Runs[sid]
	i, _ := slices.BinarySearchFunc(runs, n, func(have Run, n int64) int {
		if have.Last < n {
			return -1
		}
		return 1
	})
	return i < len(runs) && runs[i].First <= n
}

// Includes reports whether the set has all transactions of other.
func (s *Set) Includes(other *Set) bool {
	for sid, runs := range other.Runs {
		for _, r := range runs {
			if r.Last == 0 { // a MariaDB domain without transactions
				continue
			}
			have := s.Runs[sid]
			i, _ := slices.BinarySearchFunc(have, r.First, func(h Run, n int64) int {
				if h.Last < n {
					return -1
				}
				return 1
			})
			if i == len(have) || have[i].First > r.First || have[i].Last < r.Last {
				return false
			}
		}
	}
	return true
}

// Equal reports whether both sets hold the same transactions. For a MariaDB domain, the same server must have written
// the domain's last transaction.
func (s *Set) Equal(other *Set) bool {
	if !s.Includes(other) || !other.Includes(s) {
		return false
	}
	if s.Flavor == MariaDB {
		for domain, server := range s.Servers {
			if other.Servers[domain] != server {
				return false
			}
		}
	}
	return true
}

// Empty reports whether the set has no transaction.
func (s *Set) Empty() bool { return len(s.Runs) == 0 }

// Clone returns a set that shares nothing with s.
func (s *Set) Clone() *Set {
	c := New(s.Flavor)
	for sid, runs := range s.Runs {
		c.Runs[sid] = slices.Clone(runs)
	}
	for d, server := range s.Servers {
		c.Servers[d] = server
	}
	return c
}

// String returns the set as the server prints it. The order of UUIDs or domains is fixed.
func (s *Set) String() string {
	sids := make([]string, 0, len(s.Runs))
	for sid := range s.Runs {
		sids = append(sids, sid)
	}
	if s.Flavor == MariaDB {
		slices.SortFunc(sids, func(a, b string) int {
			if len(a) != len(b) {
				return len(a) - len(b)
			}
			return strings.Compare(a, b)
		})
	} else {
		slices.Sort(sids)
	}
	var b strings.Builder
	for i, sid := range sids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(sid)
		if s.Flavor == MariaDB {
			b.WriteString("-" + s.Servers[sid] + "-" + strconv.FormatInt(s.Runs[sid][0].Last, 10))
			continue
		}
		for _, r := range s.Runs[sid] {
			b.WriteString(":" + strconv.FormatInt(r.First, 10))
			if r.Last != r.First {
				b.WriteString("-" + strconv.FormatInt(r.Last, 10))
			}
		}
	}
	return b.String()
}

// Join adds the transactions of another set. For a MariaDB domain, the higher sequence number counts.
func (s *Set) Join(other *Set) {
	for sid, runs := range other.Runs {
		if s.Flavor == MariaDB {
			if have := s.Runs[sid]; len(have) == 0 || have[0].Last < runs[0].Last {
				s.AddMaria(sid, other.Servers[sid], runs[0].Last)
			}
			continue
		}
		for _, r := range runs {
			s.Add(sid, r)
		}
	}
}

// Intersect returns the transactions that both sets have.
func (s *Set) Intersect(other *Set) *Set {
	out := New(s.Flavor)
	for sid, runs := range s.Runs {
		theirs := other.Runs[sid]
		if s.Flavor == MariaDB {
			if len(theirs) > 0 {
				in := s
				if theirs[0].Last < runs[0].Last {
					in = other
				}
				out.AddMaria(sid, in.Servers[sid], min(theirs[0].Last, runs[0].Last))
			}
			continue
		}
		for _, a := range runs {
			for _, b := range theirs {
				if r := (Run{max(a.First, b.First), min(a.Last, b.Last)}); r.First <= r.Last {
					out.Add(sid, r)
				}
			}
		}
	}
	return out
}
