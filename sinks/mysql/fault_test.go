package mysql

import (
	"database/sql"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// The server itself knows the names of its errors.
func TestTheKnownErrorsHaveTheServersNames(t *testing.T) {
	db, err := sql.Open("mysql", servertest.Own(t, servers.MySQL, "--performance-schema=ON").DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT ERROR_NUMBER, ERROR_NAME FROM performance_schema.events_errors_summary_global_by_error " +
		"WHERE ERROR_NUMBER IS NOT NULL")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	known := 0
	for rows.Next() {
		var number uint16
		var name string
		if err := rows.Scan(&number, &name); err != nil {
			t.Fatal(err)
		}
		if f, ok := faults[number]; ok && number != 4025 { // MariaDB uses the number for another error
			known++
			if f.name != name {
				t.Errorf("%d: %q, want %q", number, f.name, name)
			}
		}
	}
	if err := rows.Err(); err != nil || known < len(faults)-10 { // some errors exist only in MariaDB
		t.Errorf("the server knows %d of %d errors (%v)", known, len(faults), err)
	}
	for number, f := range faults {
		if f.plain == (f.means != "") {
			t.Errorf("%d: either the server's message is shown or our words", number)
		}
	}
}
