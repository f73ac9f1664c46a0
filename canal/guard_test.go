package canal

import (
	"errors"
	"strings"
	"testing"

	"replicator"
	"replicator/canal/gtid"
)

// If a replica was promoted without the last transactions and wrote other transactions instead, the log is lost, as on
// MySQL. A server whose log has no transactions of the server that was read is a stranger.
func TestAMariaDBServerWithoutTheTailIsToldFromAStranger(t *testing.T) {
	type seen struct {
		server string
		seq    int64
	}
	for _, c := range []struct {
		name, start string // start: the GTID list at the file's beginning
		seen        []seen
		lost, fine  bool
	}{
		{name: "the transaction is met", seen: []seen{{"5", 9}, {"5", 10}, {"7", 11}}, fine: true},
		{name: "the list names it", start: "0-5-10", seen: []seen{{"7", 11}}, fine: true},
		{name: "its server's last one is an earlier one", seen: []seen{{"5", 8}, {"7", 9}, {"7", 10}}, lost: true},
		{name: "the list names an earlier one", start: "0-5-8", seen: []seen{{"7", 9}, {"7", 10}}, lost: true},
		{name: "its server's first one is a later one", seen: []seen{{"5", 12}, {"7", 13}}, lost: true},
		{name: "the list names another's, its server's first one is a later one", start: "0-7-8",
			seen: []seen{{"5", 12}}, lost: true},
		{name: "its server's last ones are others", seen: []seen{{"5", 8}, {"5", 12}}, lost: true},
		{name: "nothing of its server", start: "0-7-8", seen: []seen{{"7", 9}, {"7", 10}}},
		{name: "no list, nothing of its server", seen: []seen{{"7", 10}}},
	} {
		applied, err := gtid.Parse(gtid.MariaDB, "0-5-10")
		if err != nil {
			t.Fatal(err)
		}
		start, err := gtid.Parse(gtid.MariaDB, c.start)
		if err != nil {
			t.Fatal(err)
		}
		g := newMariaGuard(applied, start, nil)
		for _, x := range c.seen {
			if err == nil {
				err = g.see(sid{name: "0", server: x.server}, x.seq)
			}
		}
		if err != nil && errors.Is(err, replicator.ErrLost) == strings.Contains(err.Error(), "replicator rebuild") {
			t.Errorf("%s: the way out is said where it is not a loss, and only there: %v", c.name, err) // see on_lost
		}
		if (err == nil) != c.fine || !c.fine && !replicator.IsFatal(err) || errors.Is(err, replicator.ErrLost) != c.lost {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
