package main

import (
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// The application has its own columns or rows in a view's table. A rebuild must not lose them. If a swap would lose
// them, the rebuild is done in place, and the log gives the reason.
func TestARebuildKeepsWhatIsNotTheViews(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	for _, key := range []string{"a", "b", "c"} {
		l.put(key, 1, `{"username": "`+key+`", "email": "`+key+`@x.org", "phone": 1}`)
	}
	l.exec("ALTER TABLE users ADD COLUMN note VARCHAR(20)",
		"CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, email VARCHAR(100))",
		"CREATE TRIGGER seen AFTER INSERT ON index_users_email FOR EACH ROW INSERT INTO log (email) VALUES (NEW.email)",
		"CREATE TABLE calls (user BINARY(16) NOT NULL, CONSTRAINT of_user FOREIGN KEY (user) REFERENCES users (id))")
	p := l.running()
	l.caughtUp()
	l.exec("INSERT INTO calls SELECT id FROM users",
		"UPDATE users SET note = CONCAT('of ', username)", "UPDATE users SET email = 'spoilt'",
		"UPDATE index_users_email SET email = 'spoilt' WHERE email = 'b@x.org'")
	l.must("rebuild", "users", "index_users_email", "index_users_phone")
	if strings.Contains(p.Log(), "table index_users_phone") {
		t.Errorf("a view whose table is its own was not swapped:\n%s", p.Log())
	}
	l.expect("SELECT email, note FROM users ORDER BY 1", "a@x.org of a", "b@x.org of b", "c@x.org of c")
	l.expect(emails, "a@x.org a", "b@x.org b", "c@x.org c")
	l.exec("DELETE FROM log")
	l.put("d", 1, `{"username": "d", "email": "d@x.org", "phone": 2}`)
	l.caughtUp()
	l.expect("SELECT email FROM log", "d@x.org")
	l.expect("SELECT referenced_table_name FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE() AND constraint_name = 'of_user'", "users")
	l.expect("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE '%\\_\\_re%'")
	for _, reason := range []string{"column note", "trigger seen", "foreign key of another table of_user"} {
		if !strings.Contains(p.Log(), reason) {
			t.Errorf("the log doesn't say why: %s\n%s", reason, p.Log())
		}
	}
	l.must("verify", "users", "index_users_email", "index_users_phone")
	p.stop()
}
