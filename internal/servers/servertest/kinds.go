package servertest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers"
)

// The environment variables that choose the kinds of a run.
const (
	kindsVariable   = "REPLICATOR_TEST_SERVERS"
	insteadVariable = "REPLICATOR_TEST_INSTEAD"
)

// standIns maps a kind of server to the kinds that may replace it. A test that runs on any release of a product, such
// as MySQL, asks for the kind that is a key of this map.
var standIns = map[servers.Kind][]servers.Kind{
	servers.MySQL:         {servers.MySQL80, servers.MySQL57},
	servers.MariaDB1011:   {servers.MariaDB114, servers.MariaDB118},
	servers.MariaDB118:    {servers.MariaDB114, servers.MariaDB1011},
	servers.Redis7:        {servers.Redis8, servers.Valkey},
	servers.Elasticsearch: {servers.Elasticsearch9, servers.OpenSearch},
}

func named(t testing.TB, variable string) []servers.Kind {
	t.Helper()
	var kinds []servers.Kind
	for name := range strings.FieldsFuncSeq(os.Getenv(variable), func(r rune) bool { return r == ',' || r == ' ' }) {
		kind, err := servers.ParseKind(name)
		if err != nil {
			t.Fatalf("servertest: %s: %v", variable, err)
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// chosen returns the kind on which a test for kind runs: the kind in $REPLICATOR_TEST_INSTEAD that can replace kind, or
// else kind itself.
func chosen(t testing.TB, kind servers.Kind) servers.Kind {
	t.Helper()
	instead := named(t, insteadVariable)
	if slices.Contains(instead, kind) {
		return kind
	}
	for _, other := range instead {
		if slices.Contains(standIns[kind], other) {
			return other
		}
	}
	return kind
}

// sources returns the kinds on which Each and EachKind run: the kinds in $REPLICATOR_TEST_INSTEAD that have a binlog.
// If there are none, it returns servers.SourceKinds.
func sources(t testing.TB) []servers.Kind {
	t.Helper()
	kinds := slices.DeleteFunc(named(t, insteadVariable), func(k servers.Kind) bool { return !k.IsSQL() })
	if len(kinds) > 0 {
		return kinds
	}
	return servers.SourceKinds()
}

// skipUnselected skips the test if $REPLICATOR_TEST_SERVERS names other kinds only, and servers are not required.
func skipUnselected(t testing.TB, kind servers.Kind) {
	t.Helper()
	kinds := named(t, kindsVariable)
	if len(kinds) == 0 || required() || slices.Contains(kinds, kind) {
		return
	}
	t.Skipf("servertest: %s=%s does not include %s", kindsVariable, os.Getenv(kindsVariable), kind)
}
