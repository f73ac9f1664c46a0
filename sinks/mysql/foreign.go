package mysql

import (
	"context"
	"fmt"
	"strings"

	"replicator"
)

// Foreign implements replicator.Shadower. It names the parts of the view's table that a swap would lose: other
// programs' columns, triggers and foreign keys. CREATE TABLE … LIKE copies no triggers and no foreign keys. Other
// tables' foreign keys follow the old table through its RENAME.
func (s *Sink) Foreign(ctx context.Context, v *replicator.View) (string, error) {
	sh, err := s.readShape(ctx, settingsOf(v).Table)
	if err != nil || sh == nil {
		return "", err
	}
	if !hasRoomBeside(sh.table) {
		return fmt.Sprintf("the name of table %s has more than %d characters, so a second table's name, with the "+
			"suffix %s, would exceed MySQL's limit", sh.name(), maxName-len(oldTable), oldTable), nil
	}
	if _, problems := s.plan(v, sh); len(problems) > 0 && !settingsOf(v).Create {
		return "", nil // the rebuild will fail with these problems (createShadow)
	}
	var foreign []string
	for _, c := range sh.columns {
		// An index's rows are always deleted and inserted whole, so the values of another program's column are lost
		// even without a swap. A column that the program made belonged to an earlier definition of the view (refit.go).
		own := c.generated || c.isOurs() || v.Kind == "index" || manages(v, c.name)
		if !own {
			foreign = append(foreign, "column "+c.name)
		}
	}
	dependents, err := s.dependents(ctx, sh)
	if err != nil {
		return "", fmt.Errorf("view %s: %w", v.Name, err)
	}
	foreign = append(foreign, dependents...)
	if len(foreign) == 0 {
		return "", nil
	}
	return fmt.Sprintf("a swap would lose parts of table %s that don't belong to the view: %s", sh.name(),
		strings.Join(foreign, ", ")), nil
}

func (s *Sink) dependents(ctx context.Context, sh *shape) (all []string, err error) {
	for _, of := range []struct{ what, query string }{
		{"trigger", "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS " +
			"WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ? ORDER BY 1"},
		{"foreign key", "SELECT DISTINCT CONSTRAINT_NAME FROM information_schema.KEY_COLUMN_USAGE " +
			"WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND REFERENCED_TABLE_NAME IS NOT NULL ORDER BY 1"},
		{"foreign key of another table", "SELECT DISTINCT CONSTRAINT_NAME FROM information_schema.KEY_COLUMN_USAGE " +
			"WHERE REFERENCED_TABLE_SCHEMA = ? AND REFERENCED_TABLE_NAME = ? ORDER BY 1"},
	} {
		names, err := texts(ctx, s.db, of.query, sh.database, sh.table)
		if err != nil {
			return nil, classify(err, fmt.Sprintf("looking for triggers and foreign keys of table %s", sh.name()))
		}
		for _, name := range names {
			all = append(all, of.what+" "+name)
		}
	}
	return all, nil
}
