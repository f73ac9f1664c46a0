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
	"replicator/sinks/mysql"
)

// seedViews are the seven views of the seed's users cell. seedDDL creates their tables.
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

// seedOp returns an op that puts a users cell of the seed.
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

// cpu returns the processor time that a process has used, including its threads and the kernel. Other programs on the
// machine don't distort it.
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
