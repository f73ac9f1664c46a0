package canal

import (
	"slices"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// setup is a server with the settings that decide how a reader waits until rows are visible: see fence.
type setup struct {
	name  string
	kind  servers.Kind
	args  []string
	locks bool // rows are locked while they are read
}

func setups() []setup {
	without := servers.GTIDs(servers.MySQL, false)
	return []setup{
		{"MySQL", servers.MySQL, nil, false},
		{"MySQL without GTIDs", servers.MySQL, without, false},
		{"MySQL without GTIDs and Performance Schema", servers.MySQL, append(slices.Clip(without), "--performance-schema=OFF"), true},
		{"MySQL 8.0", servers.MySQL80, servers.GTIDs(servers.MySQL80, true), false},
		{"MySQL 8.0 without GTIDs", servers.MySQL80, nil, false},
		{"MySQL 5.7", servers.MySQL57, servers.GTIDs(servers.MySQL57, true), false},
		{"MySQL 5.7 without GTIDs", servers.MySQL57, nil, true},
		{"MySQL 5.7 without GTIDs, with locks of metadata", servers.MySQL57,
			[]string{"--performance-schema-instrument=wait/lock/metadata/sql/mdl=ON"}, false},
		{"MariaDB", servers.MariaDB118, nil, false},
	}
}

// eachSetup runs a subtest for each setup, each with its own server.
func eachSetup(t *testing.T, test func(t *testing.T, b *bench, s setup)) {
	t.Helper()
	each(t, setups(), test)
}

func each(t *testing.T, setups []setup, test func(t *testing.T, b *bench, s setup)) {
	t.Helper()
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, servertest.Own(t, s.kind, s.args...))
			if b.server.Kind != s.kind {
				t.Skipf("%s is what another setup is for", b.server.Kind)
			}
			test(t, b, s)
		})
	}
}
