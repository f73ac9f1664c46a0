package main

import (
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A publisher's source was RESET earlier, or is RESET now. Then the publisher's view is forgotten and renamed. The
// publisher remembers nothing, but members must treat what it now publishes as newer, including deletes.
func TestMembersFollowAPublisherThatWasForgotten(t *testing.T) {
	t.Parallel()
	for name, atOnce := range map[string]bool{"the source was RESET long ago": false, "the source is RESET": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTopicLabOn(t, servertest.Own(t, servers.MySQL))
			l.publish(1)
			if !atOnce {
				l.reset()
				l.must("checkpoint", "reset", "--yes")
				l.publish(2)
			}
			m := l.member("")
			running := m.running()
			l.exec("FLUSH BINARY LOGS", "FLUSH BINARY LOGS") // what comes next is far behind the log's beginning
			l.includes(m, l.publish(3))
			l.right(3)

			if atOnce {
				l.reset()
			}
			l.exec("DELETE FROM cell WHERE row_key = 0x" + keyText(userKeys[0]))
			l.must("checkpoint", "forget", "cells", "--yes")
			l.configure(strings.Replace(changelogViews, "[views.cells]", "[views.renamed]", 1))
			l.must("run", "--until-caught-up")
			l.exec("DELETE FROM cell WHERE row_key = 0x"+keyText(userKeys[1]),
				`UPDATE cell SET body = '{"username": "n9", "email": "z@x.org", "phone": 1}' WHERE row_key = 0x`+
					keyText(userKeys[2]))
			fence := l.position()
			l.must("run", "--until-caught-up")
			l.includes(m, fence)
			running.stop()
			gone := "SELECT COUNT(*) FROM users WHERE id IN (0x" + keyText(userKeys[0]) + ", 0x" + keyText(userKeys[1]) + ")"
			l.expect(gone, "0")
			l.expect("SELECT email FROM users WHERE id = 0x"+keyText(userKeys[2]), "z@x.org")
			l.expect("SELECT COUNT(*) FROM users", "10")
			l.expect("SELECT COUNT(*) FROM index_users_email", "10")
			l.expect("SELECT SUM(cnt) FROM names", "10")
		})
	}
}
