package canal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// flavor is the sort of server.
type flavor int

const (
	mysqlFlavor flavor = iota + 1
	mariaFlavor
)

func (f flavor) String() string {
	if f == mariaFlavor {
		return "mariadb"
	}
	return "mysql"
}

// span is a run of transaction numbers, first ≤ last.
type span struct{ first, last int64 }

// gtidSet is a set of transactions. On MySQL it maps "uuid" or "uuid:tag" to runs of numbers, ascending and apart. On
// MariaDB, where a set is a place in each domain, it maps "domain" to one run that ends at the domain's last sequence
// number, and servers says who wrote that.
//
// It is our own because go-mysql's loses tags (MySQL ≥ 8.3) and because a set with thousands of runs must be cheap to
// add to.
type gtidSet struct {
	flavor  flavor
	runs    map[string][]span
	servers map[string]string // MariaDB: domain → server id
}

func newGTIDSet(f flavor) *gtidSet {
	return &gtidSet{flavor: f, runs: map[string][]span{}, servers: map[string]string{}}
}

// parseGTIDSet reads the server's text form.
func parseGTIDSet(f flavor, text string) (*gtidSet, error) {
	s := newGTIDSet(f)
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		var err error
		if f == mariaFlavor {
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
func (s *gtidSet) parseMaria(part string) error {
	f := strings.Split(part, "-")
	if len(f) != 3 {
		return fmt.Errorf("%q is no MariaDB GTID (domain-server-sequence)", part)
	}
	for _, n := range f[:2] {
		if _, err := strconv.ParseUint(n, 10, 32); err != nil {
			return fmt.Errorf("%q is no MariaDB GTID (domain-server-sequence)", part)
		}
	}
	seq, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || seq < 0 {
		return fmt.Errorf("%q is no MariaDB GTID (domain-server-sequence)", part)
	}
	s.addMaria(f[0], f[1], seq)
	return nil
}

// parseMySQL reads "uuid:1-3:5", "uuid:tag:1-3" and "uuid:1-3:tag:1:other:7-9".
func (s *gtidSet) parseMySQL(part string) error {
	f := strings.Split(part, ":")
	uuid := strings.ToLower(strings.TrimSpace(f[0]))
	if !isUUID(uuid) || len(f) < 2 {
		return fmt.Errorf("%q is no GTID set (uuid:1-3)", part)
	}
	sid := uuid
	for _, item := range f[1:] {
		item = strings.TrimSpace(item)
		if item == "" {
			return fmt.Errorf("%q is no GTID set (uuid:1-3)", part)
		}
		if item[0] < '0' || item[0] > '9' {
			sid = uuid + ":" + strings.ToLower(item)
			continue
		}
		from, to, isRange := strings.Cut(item, "-")
		first, err := strconv.ParseInt(from, 10, 64)
		if err != nil || first < 1 {
			return fmt.Errorf("%q is no GTID set (uuid:1-3)", part)
		}
		last := first
		if isRange {
			if last, err = strconv.ParseInt(to, 10, 64); err != nil || last < first {
				return fmt.Errorf("%q is no GTID set (uuid:1-3)", part)
			}
		}
		s.add(sid, span{first, last})
	}
	return nil
}

func isUUID(s string) bool {
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

// add adds a run of a MySQL source's transactions. Nearly always it continues the last run.
func (s *gtidSet) add(sid string, r span) {
	runs := s.runs[sid]
	if n := len(runs); n > 0 && runs[n-1].last+1 == r.first {
		runs[n-1].last = r.last
		return
	}
	i, _ := slices.BinarySearchFunc(runs, r.first, func(have span, first int64) int {
		if have.last+1 < first {
			return -1
		}
		return 1
	})
	j := i
	for j < len(runs) && runs[j].first <= r.last+1 {
		r.first, r.last = min(r.first, runs[j].first), max(r.last, runs[j].last)
		j++
	}
	s.runs[sid] = slices.Replace(runs, i, j, r)
}

// addMaria moves a domain on to a transaction.
func (s *gtidSet) addMaria(domain, server string, seq int64) {
	s.runs[domain] = []span{{1, seq}}
	s.servers[domain] = server
}

// contains reports whether the set holds transaction n of a source (MariaDB: of a domain).
func (s *gtidSet) contains(sid string, n int64) bool {
	runs := s.runs[sid]
	i, _ := slices.BinarySearchFunc(runs, n, func(have span, n int64) int {
		if have.last < n {
			return -1
		}
		return 1
	})
	return i < len(runs) && runs[i].first <= n
}

// includes reports whether the set holds all of other.
func (s *gtidSet) includes(other *gtidSet) bool {
	for sid, runs := range other.runs {
		for _, r := range runs {
			if r.last == 0 { // an empty domain
				continue
			}
			have := s.runs[sid]
			i, _ := slices.BinarySearchFunc(have, r.first, func(h span, n int64) int {
				if h.last < n {
					return -1
				}
				return 1
			})
			if i == len(have) || have[i].first > r.first || have[i].last < r.last {
				return false
			}
		}
	}
	return true
}

func (s *gtidSet) equal(other *gtidSet) bool {
	if !s.includes(other) || !other.includes(s) {
		return false
	}
	if s.flavor == mariaFlavor {
		for domain, server := range s.servers {
			if other.servers[domain] != server {
				return false
			}
		}
	}
	return true
}

func (s *gtidSet) empty() bool { return len(s.runs) == 0 }

func (s *gtidSet) clone() *gtidSet {
	c := newGTIDSet(s.flavor)
	for sid, runs := range s.runs {
		c.runs[sid] = slices.Clone(runs)
	}
	for d, server := range s.servers {
		c.servers[d] = server
	}
	return c
}

// String is the server's text form, in a fixed order.
func (s *gtidSet) String() string {
	sids := make([]string, 0, len(s.runs))
	for sid := range s.runs {
		sids = append(sids, sid)
	}
	if s.flavor == mariaFlavor {
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
		if s.flavor == mariaFlavor {
			b.WriteString("-" + s.servers[sid] + "-" + strconv.FormatInt(s.runs[sid][0].last, 10))
			continue
		}
		for _, r := range s.runs[sid] {
			b.WriteString(":" + strconv.FormatInt(r.first, 10))
			if r.last != r.first {
				b.WriteString("-" + strconv.FormatInt(r.last, 10))
			}
		}
	}
	return b.String()
}

// join adds the transactions of another set; of a MariaDB domain the later place counts.
func (s *gtidSet) join(other *gtidSet) {
	for sid, runs := range other.runs {
		if s.flavor == mariaFlavor {
			if have := s.runs[sid]; len(have) == 0 || have[0].last < runs[0].last {
				s.addMaria(sid, other.servers[sid], runs[0].last)
			}
			continue
		}
		for _, r := range runs {
			s.add(sid, r)
		}
	}
}

// intersect are the transactions in both sets.
func (s *gtidSet) intersect(other *gtidSet) *gtidSet {
	out := newGTIDSet(s.flavor)
	for sid, runs := range s.runs {
		theirs := other.runs[sid]
		if s.flavor == mariaFlavor {
			if len(theirs) > 0 {
				in := s
				if theirs[0].last < runs[0].last {
					in = other
				}
				out.addMaria(sid, in.servers[sid], min(theirs[0].last, runs[0].last))
			}
			continue
		}
		for _, a := range runs {
			for _, b := range theirs {
				if r := (span{max(a.first, b.first), min(a.last, b.last)}); r.first <= r.last {
					out.add(sid, r)
				}
			}
		}
	}
	return out
}
