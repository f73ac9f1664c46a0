package mysqldsn

import (
	"strings"
	"testing"
)

func TestADSNIsReadOrRefusedWithoutQuotingIt(t *testing.T) {
	for _, c := range []struct {
		dsn, addr string // addr "": the DSN is refused
	}{
		{"r:hunter2@tcp(127.0.0.1:3306)/shop", "127.0.0.1:3306"},
		{"r:hunter2@tcp6([::1]:3306)/shop?timeout=1s", "[::1]:3306"},
		{"r:hunter2@unix(/run/mysqld.sock)/shop", "/run/mysqld.sock"},
		{"r:hunter2@/shop", "127.0.0.1:3306"},
		{"r:p@ss(w)/or?d@tcp(h:1)/shop", "h:1"},
		{"r:hunter2tcp(127.0.0.1:3306)/shop", ""},
		{"r:hunter2(127.0.0.1:3306)/shop", ""},
		{"r:hunter2/shop", ""},
		{"r:hunter2@udp(h:1)/shop", ""},
		{"r:hunter2@tcp(h:1", ""},
	} {
		got, err := Parse(c.dsn)
		switch {
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: the error shows the password: %v", c.dsn, err)
		case (err != nil) != (c.addr == ""):
			t.Errorf("%s: %v", c.dsn, err)
		case err == nil && got.Addr != c.addr:
			t.Errorf("%s: its address is %s, not %s", c.dsn, got.Addr, c.addr)
		}
	}
}
