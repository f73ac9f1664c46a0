package config

import "replicator/internal/mysqldsn"

// Shard is one server of a source or a sink. Without sharding there is a single Shard whose name is "".
type Shard struct {
	Name     string
	DSN      Secret // a valid DSN in the form of go-sql-driver
	Address  string // HOST:PORT, for messages
	Database string // the DSN's database; "" if the DSN has none
}

// Shards reads dsn or [shards]. It returns at least one Shard, even after an error, so callers need not check.
func (s *Section) Shards() []Shard {
	dsn := s.Secret("dsn", exampleDSN)
	names := s.get("shards", aTable, "["+under(s.path, "shards")+"]")
	switch {
	case s.Given("dsn") && s.Has("shards"):
		s.Problem("shards", "dsn is given as well; give one of the two")
	case s.Has("shards"):
		if names == nil {
			return make([]Shard, 1)
		}
		return s.namedShards(names)
	case !s.Given("dsn"):
		if s.at.line > 0 {
			s.Need("dsn", exampleDSN)
		}
		return make([]Shard, 1)
	}
	return []Shard{s.shard("dsn", dsn)}
}

// namedShards reads the items of [shards]: NAME = "DSN", or NAME = { dsn_file = "…" }.
func (s *Section) namedShards(at *node) []Shard {
	all := &Section{l: s.l, at: at, path: under(s.path, "shards"), shape: under(s.shape, "shards")}
	var shards []Shard
	for _, name := range at.names {
		if problem := badName(name); problem != "" {
			all.Problem(name, "%s", problem)
			continue
		}
		one, key := all, name
		if all.IsTable(name) {
			one = &Section{l: s.l, at: at.fields[name], path: under(all.path, name), shape: under(all.shape, "*")}
			key = "dsn"
			if !one.Given(key) {
				one.Problem("", "needs dsn or dsn_file")
			}
		}
		shard := one.shard(key, one.shardDSN(key))
		shard.Name = name
		shards = append(shards, shard)
		if one != all {
			one.reportKeys()
		}
	}
	if len(shards) == 0 {
		s.Problem("shards", "is empty; say for example a = %s", exampleDSN)
		return make([]Shard, 1)
	}
	return shards
}

func (s *Section) shardDSN(key string) Secret {
	if key == "dsn" {
		return s.Secret(key, exampleDSN)
	}
	if n := s.at.fields[key]; n.kind == unusable {
		return ""
	} else if n.kind != aText {
		s.Problem(key, "expected a DSN, such as %s, or { dsn_file = \"…\" }, and found %s", exampleDSN, n.kind)
		return ""
	}
	return Secret(s.at.fields[key].text)
}

// shard parses a DSN. It does not show the driver's errors, because they may quote the DSN.
func (s *Section) shard(key string, dsn Secret) Shard {
	if dsn == "" {
		if n := s.at.fields[key]; n != nil && n.kind == aText {
			s.Problem(key, "is empty; say for example %s", exampleDSN)
		}
		return Shard{}
	}
	c, err := mysqldsn.Parse(dsn.Reveal())
	if err != nil {
		if !s.Has(key) {
			key += "_file"
		}
		s.Problem(key, "is not a DSN (not shown, because it may contain a password). A DSN has the form "+
			"USER:PASSWORD@tcp(HOST:PORT)/DATABASE?NAME=VALUE")
		return Shard{}
	}
	return Shard{DSN: dsn, Address: c.Addr, Database: c.DBName}
}
