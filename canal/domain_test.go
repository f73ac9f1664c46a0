package canal

import (
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
)

// TestADomainThatWasDeletedCountsNoMore: MariaDB's FLUSH BINARY LOGS DELETE_DOMAIN_ID makes the server forget a domain
// that no binlog file has transactions of. The server's log still counts as the log that was read.
func TestADomainThatWasDeletedCountsNoMore(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MariaDB1011, servers.MariaDB118} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel() // each waits for its own servers
			primary, other := pair(t, kind)
			w := &world{bench: primary, gtid: true}
			w.exec(strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
			w.src = w.source(appTable())
			x := w.follows()
			other.follow(primary)
			for n := range 20 { // other's numbers in the default domain get as high; it has nothing of domain 3
				other.exec(fmt.Sprintf(appCell, n))
			}
			w.session("SET SESSION gtid_domain_id = 3", fmt.Sprintf(appCell, 1))
			w.exec("FLUSH BINARY LOGS")
			w.write(1)
			x.upTo(w.latest(w.src))
			x.end()
			listed := x.reader.Position(x.last()) // in a file whose GTID list names the domain

			x = w.read(w.open(w.src, listed))
			w.write(1)
			w.purge(w.file())
			w.exec("FLUSH BINARY LOGS DELETE_DOMAIN_ID = (3)")
			w.write(1)
			x.upTo(w.latest(w.src))
			x.end()
			at := map[string]replicator.Position{"in a file that lists it": listed,
				"of a reader that knew it": x.reader.Position(x.last())}
			tok, err := parseToken(listed.Token)
			if err != nil {
				t.Fatal(err)
			}
			tok.Read = &read{GTID: tok.GTID, Older: tok.GTID, Unsure: tok.GTID}
			if at["with what was read"], err = tok.position(); err != nil {
				t.Fatal(err)
			}
			w.expect("after the deletion", at, theSame)
			oldest, err := w.src.Oldest(testContext(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			w.expect("after the deletion", map[string]replicator.Position{"at the beginning": oldest}, theSame)
			for name, p := range at {
				if !strings.Contains(p.Token, ",3-") {
					t.Fatalf("%s: %s does not name the domain", name, p.Token)
				}
				end, err := w.src.Latest(testContext(t), []replicator.Position{p})
				if err != nil || end.Order < p.Order || end.Order>>(fileBits+addressBits) != 0 {
					t.Errorf("%s: the end is at %d, %v: not of the same log", name, end.Order, err)
				}
				elsewhere := world{bench: other, src: other.source(appTable())}
				elsewhere.expect("on a server without the domain", map[string]replicator.Position{name: p}, behind)

				x := w.read(w.open(w.src, p))
				w.write(2)
				changes := x.upTo(w.latest(w.src))
				x.end()
				for _, c := range changes[1:] {
					on := x.reader.Position(c.Order) // after the previous transaction
					if strings.Contains(on.Token, ",3-") {
						t.Errorf("%s: reading goes on with %s", name, on.Token)
					}
					w.expect("once more", map[string]replicator.Position{name: on}, theSame)
				}
			}
		})
	}
}
