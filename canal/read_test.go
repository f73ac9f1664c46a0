package canal

import (
	"slices"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

const cellDDL = `CREATE TABLE cell (added_at BIGINT PRIMARY KEY AUTO_INCREMENT, row_key BINARY(16) NOT NULL, column_name VARCHAR(64) NOT NULL,
	ref_key BIGINT NOT NULL, body BLOB, created_at DATETIME DEFAULT CURRENT_TIMESTAMP, CONSTRAINT cell_idx UNIQUE(row_key, column_name, ref_key)) ENGINE=InnoDB`

func cellTable() replicator.Table {
	return replicator.Table{Name: "cell", Key: []string{"row_key"}, Column: "column_name", Version: "ref_key",
		Offset: []string{"added_at"},
		Body:   "body", Codec: "json"}
}

func shown(changes []replicator.Change) []string {
	var out []string
	for _, c := range changes {
		out = append(out, showChange(c))
	}
	return out
}

func wantChanges(t testing.TB, got []replicator.Change, want ...string) {
	t.Helper()
	if s := shown(got); !slices.Equal(s, want) {
		t.Errorf("changes:\n%q\nwant:\n%q", s, want)
	}
}

func TestReadDeliversCellsInOrder(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec(cellDDL)
		src := b.source(cellTable())
		from := b.latest(src)
		b.exec("INSERT INTO cell(row_key, column_name, ref_key, body) VALUES (UNHEX('000102030405060708090a0b0c0d0000'), 'users', 1, '{\"a\":1}'), "+
			"(UNHEX('FF0102030405060708090a0b0c0d0e0f'), 'users', 9007199254740993, NULL)",
			"UPDATE cell SET body = '{}' WHERE ref_key = 1", "UPDATE cell SET ref_key = 5 WHERE ref_key = 1",
			"UPDATE cell SET ref_key = 4 WHERE ref_key = 5",
			"UPDATE cell SET column_name = 'x' WHERE ref_key = 4", "DELETE FROM cell WHERE ref_key = 4")
		got := b.changes(src, from)
		const k = "000102030405060708090a0b0c0d0000"
		wantChanges(t, got,
			"insert cell.users "+k+` v1 {"a":1}`, "insert cell.users ff0102030405060708090a0b0c0d0e0f v9007199254740993",
			"update cell.users "+k+" v1 {}", "update cell.users "+k+" v5 {}",
			"delete cell.users "+k+" v5", "insert cell.users "+k+" v4 {}",
			"delete cell.users "+k+" v4", "insert cell.x "+k+" v4 {}", "delete cell.x "+k+" v4")
		for i := 1; i < len(got); i++ {
			if got[i].Order <= got[i-1].Order {
				t.Errorf("order of change %d is %d, after %d", i, got[i].Order, got[i-1].Order)
			}
		}
		again := b.changes(src, from)
		for i := range again {
			if again[i].Order != got[i].Order {
				t.Errorf("order of change %d is %d, in a replay %d", i, got[i].Order, again[i].Order)
			}
		}
	})
}
