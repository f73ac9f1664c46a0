package mysql_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

// seedViews are the seven views of the seed's users cell, and seedDDL their tables.
var seedViews, seedDDL = func() ([]*replicator.View, []string) {
	columns := []struct{ name, typ, key string }{
		{"id", "BINARY(16) NOT NULL", "id"}, {"username", "VARCHAR(20) NOT NULL", "username"}, {"email",
			"VARCHAR(254) NOT NULL", "email"},
		{"phone", "INT(10)", "phone"}, {"password", "TEXT NOT NULL", "password(191)"},
		{"activate", "BOOLEAN NOT NULL", "activate"},
	}
	ddl := []string{"CREATE TABLE users (id BINARY(16) PRIMARY KEY, username VARCHAR(20), email VARCHAR(254), phone INT(10), password TEXT, activate boolean)"}
	views := []*replicator.View{{Name: "users", Kind: "row", From: from("cell.users"),
		Fields:   fields("username", "email", "phone", "password", "activate"),
		Settings: mysql.Settings{KeyFrom: rowKey("id"), Table: "users"}, Fingerprint: "1"}}
	for _, c := range columns {
		name := "index_users_" + c.name
		ddl = append(ddl, fmt.Sprintf("CREATE TABLE %s (%s %s, row_key BINARY(16) NOT NULL UNIQUE, PRIMARY KEY (%s, row_key)) ENGINE=InnoDB", name, c.name, c.typ, c.key))
		views = append(views, &replicator.View{Name: name, Kind: "index", From: from("cell.users"), Fields: fields(c.name),
			Settings: mysql.Settings{KeyFrom: rowKey("row_key"), Table: name}, Fingerprint: "1"})
	}
	return views, ddl
}()

// seedOp is a users cell of the seed.
func seedOp(n int, version int64, email string) replicator.Op {
	id := make([]byte, 16)
	binary.BigEndian.PutUint64(id, uint64(n)*0x9e3779b97f4a7c15)
	key, _ := replicator.MakeKey(id)
	one := func(view int, fields ...any) replicator.Value {
		return replicator.Value{View: view, Entries: []replicator.Entry{{Fields: fields}}}
	}
	name, phone, password := fmt.Sprintf("user%d",
		n), int64(5551000000/1000+n), "$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW"
	return replicator.Op{Cell: replicator.Cell{Table: "cell", Column: "users", Key: key}, Version: version, Order: version,
		Values: []replicator.Value{
			one(0, name, email, phone, password, true), one(1, id), one(2, name), one(3, email), one(4, phone), one(5,
				password), one(6, true),
		}}
}

// cpu is how much processor time a process has used, its threads and the kernel included: what a busy machine doesn't
// distort.
func cpu(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}

// Figures to compare with those of the design: a users cell of the seed, which feeds seven views, in batches of 500 by
// one connection.
func BenchmarkSeedUsers(b *testing.B) {
	for kind, redo := range map[servers.Kind]string{servers.MySQL: "--innodb-redo-log-capacity=1G",
		servers.MariaDB1011: "--innodb-log-file-size=1G"} {
		b.Run(string(kind), func(b *testing.B) {
			s := servertest.Own(b, kind, redo, "--innodb-buffer-pool-size=1G") // as a server is, and not as tests want it
			_, dsn := database(b, s, seedDDL...)
			sink := newSink(b, dsn)
			defer sink.Close()
			target, err := sink.Open(b.Context(), "", seedViews)
			if err != nil {
				b.Fatal(err)
			}
			version := int64(0)
			pid := s.PID()
			run := func(name string, first func(batch int) int, email func(n int, version int64) string) {
				b.Run(name, func(b *testing.B) {
					before := cpu(b, os.Getpid()) + cpu(b, pid)
					for i := 0; b.Loop(); i++ {
						version++
						ops := make([]replicator.Op, 500)
						for n := range ops {
							at := first(i) + n
							ops[n] = seedOp(at, version, email(at, version))
						}
						if _, err := target.Apply(b.Context(), ops); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*500), "µs/cell")
					b.ReportMetric(float64((cpu(b, os.Getpid())+cpu(b, pid)-before).Microseconds())/float64(b.N*500), "cpu-µs/cell")
				})
			}
			next := 0
			run("new", func(int) int { next += 500; return next },
				func(n int, _ int64) string { return fmt.Sprintf("user%d@example.com", n) })
			total := next
			again := func(i int) int { return 500 + i*500%total }
			run("moved", again, func(n int, version int64) string { return fmt.Sprintf("user%d.%d@example.com", n, version) })
			run("gone and unchanged", again, func(n int, _ int64) string { return "same@example.com" })
			run("unchanged", again, func(n int, _ int64) string { return "same@example.com" })
		})
	}
}

// What shards cost: one index whose entries move, in one database and over three of the same server.
func BenchmarkShards(b *testing.B) {
	s := servertest.Own(b, servers.MySQL, "--innodb-redo-log-capacity=1G", "--innodb-buffer-pool-size=1G")
	pid := s.PID()
	i := movingViews()[0]
	_, dsn := database(b, s, movingDDL[0])
	one := newSink(b, dsn)
	defer one.Close()
	three := makeShards(b, s, 3, movingDDL[0]).sink(b, i)
	defer three.Close()
	for name, sink := range map[string]replicator.Sink{"1": one, "3": three} {
		target, err := sink.Open(b.Context(), "", []*replicator.View{i})
		if err != nil {
			b.Fatal(err)
		}
		version := int64(0)
		for _, what := range []string{"new", "moved"} {
			b.Run(name+"/"+what, func(b *testing.B) {
				before := cpu(b, os.Getpid()) + cpu(b, pid)
				for batch := 0; b.Loop(); batch++ {
					version++
					ops := make([]replicator.Op, 500)
					for n := range ops {
						at := batch*500 + n
						if what == "moved" {
							at %= 5000
						}
						ops[n] = userOp(at, version, 1, fmt.Sprintf("user%d.%d@example.com", at, version))
					}
					if _, err := target.Apply(b.Context(), ops); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*500), "µs/cell")
				b.ReportMetric(float64((cpu(b, os.Getpid())+cpu(b, pid)-before).Microseconds())/float64(b.N*500), "cpu-µs/cell")
			})
		}
	}
}
