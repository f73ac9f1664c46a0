package service

import (
	"context"
	"slices"
	"strings"

	"replicator"
	"replicator/canal"
	"replicator/config"
)

// columnHints warns about paths into a body that match a column of the table, such as "email" instead of "$email". A
// body may have a property of the same name, so columnHints skips views for which rows were sampled: tryViews examines
// those rows.
func columnHints(ctx context.Context, cfg *config.Config, source *canal.Source, tried *trial) []replicator.Finding {
	hints := &trial{cfg: cfg}
	known := map[string][]canal.ColumnInfo{}
	for _, v := range cfg.Views {
		if tried != nil && tried.hasRows(v) {
			continue
		}
		for _, f := range v.Fields {
			if f.Path == "" || strings.HasPrefix(f.Path, "=") {
				continue
			}
			for _, o := range config.OriginsOf(v, f.Path) {
				table := cfg.Table(o.Table)
				if table == nil || table.Body == "" || config.ColumnOf(*table, o.Path) != "" {
					continue
				}
				columns, asked := known[o.Table]
				if !asked {
					columns, _ = source.Columns(ctx, o.Table) // checkSources has reported the error
					known[o.Table] = columns
				}
				same := func(c canal.ColumnInfo) bool { return strings.EqualFold(c.Name, o.Path) }
				if i := slices.IndexFunc(columns, same); i >= 0 {
					column := config.ColumnPath(columns[i].Name)
					hints.warn("view "+v.Name, "the table has this column: write `"+column+"`, if you mean it",
						"%s names a property in the body column %s of table %s%s",
						o.Path, table.Body, table.Name, hints.line(v, "fields."+f.Name))
				}
			}
		}
	}
	return hints.findings
}

// hasRows reports whether every table that the view reads has sampled rows.
func (t *trial) hasRows(v *replicator.View) bool {
	return !slices.ContainsFunc(replicator.TablesOf([]*replicator.View{v}), func(table string) bool {
		return t.rows[table] == nil || t.rows[table].Rows == 0
	})
}
