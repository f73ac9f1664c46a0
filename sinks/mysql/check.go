package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/internal/sqlname"
)

// Check checks, without changing anything, what the views need: the connection, the server's settings, and each view's
// table.
func (s *Sink) Check(ctx context.Context, views []*replicator.View) []replicator.Finding {
	what := "sink " + s.name
	srv, err := s.ask(ctx)
	if err != nil {
		return []replicator.Finding{failed(what, err,
			"make sure that the server runs, and that the dsn's user, password, database and parameters are right")}
	}
	// A read-only server refuses a DELETE before it looks for the table, so this works even if the table is missing.
	if _, err := s.db.ExecContext(ctx, "DELETE FROM "+viewsTable+" WHERE FALSE"); errors.Is(err, driver.ErrBadConn) {
		return []replicator.Finding{{What: what, Level: replicator.Fail, Detail: takesNoWrites,
			Fix: "name the writable server in the dsn, or run SET GLOBAL read_only = OFF on this one"}}
	}
	found := []replicator.Finding{{What: what, Level: replicator.OK, Detail: "connected to " + srv.version}}
	found = append(found, s.checkSettings(ctx, srv, what)...)
	if s.shard == "" { // a sink of several shards always rebuilds in place
		found = append(found, s.checkRebuilds(ctx, what)...)
	}
	found = append(found, s.checkOwn(ctx, what))
	from := s.origins("")
	for _, v := range views {
		found = append(found, s.checkView(ctx, v, from))
	}
	return found
}

func (s *Sink) checkSettings(ctx context.Context, srv *server, what string) []replicator.Finding {
	var found []replicator.Finding
	var flush int
	if err := s.db.QueryRowContext(ctx, "SELECT @@innodb_flush_log_at_trx_commit").Scan(&flush); err == nil && flush != 1 {
		found = append(found, replicator.Finding{What: what + ": innodb_flush_log_at_trx_commit", Level: replicator.Warn,
			Detail: fmt.Sprintf("it is %d: applied changes may be lost when the machine fails (the program notices, "+
				"and applies them again)", flush),
			Fix: "SET GLOBAL innodb_flush_log_at_trx_commit = 1"})
	}
	if srv.packet < 4<<20 {
		found = append(found, replicator.Finding{What: what + ": max_allowed_packet", Level: replicator.Warn,
			Detail: fmt.Sprintf("it is %d bytes: larger values become dead letters", srv.packet),
			Fix:    "SET GLOBAL max_allowed_packet = 67108864"})
	}
	return found
}

// failed returns a finding for an error. Its fix is the one that the error names, or else the text in otherwise.
func failed(what string, err error, otherwise string) replicator.Finding {
	f := replicator.Finding{What: what, Level: replicator.Fail, Detail: err.Error(),
		Fix: replicator.FixFor(err, otherwise)}
	if known := (curable{}); errors.As(err, &known) {
		f.Detail, f.Fix = known.error.Error(), known.cure
	}
	return f
}

func (s *Sink) checkOwn(ctx context.Context, what string) replicator.Finding {
	f := replicator.Finding{What: what + ": own tables", Level: replicator.OK, Detail: "they exist"}
	existing, err := s.existing(ctx, ownNames...)
	switch {
	case err != nil:
		f.Level, f.Detail = replicator.Fail, err.Error()
	case len(existing) == len(ownNames):
		if err := s.probeOwn(ctx); err != nil {
			f = failed(f.What, err, "")
		}
	case s.mayCreate(ctx):
		f.Detail = "some don't exist yet; the next start creates them"
	default:
		f.Level, f.Detail = replicator.Fail, "they are missing and the user may not create them"
		f.Fix = s.grant(ctx, s.database, "CREATE, SELECT, INSERT, UPDATE, DELETE")
	}
	return f
}

func (s *Sink) grant(ctx context.Context, database, rights string) string {
	account := "the dsn's user"
	if current, err := texts(ctx, s.db, "SELECT CURRENT_USER()"); err == nil && len(current) == 1 {
		account = sqlname.Account(current[0])
	}
	return "GRANT " + rights + " ON " + sqlname.Quote(database) + ".* TO " + account
}

func (s *Sink) mayCreate(ctx context.Context) bool { return s.has(ctx, "CREATE") }

// has reports whether the user has a right on the database, as far as the grants show. A granted role counts as having
// the right, because the role's own grants are not read.
func (s *Sink) has(ctx context.Context, right string) bool {
	grants, err := texts(ctx, s.db, "SHOW GRANTS")
	if err != nil {
		return true // the grants can't be read. If the right is missing, Open reports it
	}
	for _, g := range grants {
		privileges, on, onSome := strings.Cut(g, " ON ")
		everywhere := strings.HasPrefix(on, "*.*") || strings.Contains(on, "%") ||
			strings.Contains(strings.ReplaceAll(on, `\_`, "_"), "`"+s.database+"`.*")
		// Compare whole names, because CREATE VIEW is a different right from CREATE.
		list := strings.Split(strings.TrimPrefix(privileges, "GRANT "), ", ")
		some := slices.Contains(list, "ALL PRIVILEGES") || slices.Contains(list, right)
		if isRole := !onSome; isRole || everywhere && some {
			return true
		}
	}
	return false
}

func (s *Sink) inShard() string {
	if s.shard == "" {
		return ""
	}
	return ", shard " + s.shard
}

func (s *Sink) checkView(ctx context.Context, v *replicator.View, from *origins) replicator.Finding {
	f := replicator.Finding{
		What: "view " + v.Name + s.inShard(), Level: replicator.OK, Detail: "table " + settingsOf(v).Table,
	}
	if settingsOf(v).Create {
		switch sh, err := s.readShape(ctx, settingsOf(v).Table); {
		case err != nil:
			f.Level, f.Detail = replicator.Fail, err.Error()
			return f
		case sh == nil:
			return s.checkCreation(ctx, f, v, from)
		default:
			if statement, err := s.rebuilt(ctx, v, sh, from); err == nil && statement != "" {
				f.Detail += " was created for another definition of the view; a rebuild alters it: " + statement
				return f
			}
			if _, left, why, err := s.madeAnew(ctx, v, sh); err == nil && len(left) > 0 {
				f.Detail += fmt.Sprintf("; a rebuild fills this table in place (%s), "+
					"so it keeps these columns of an earlier definition: %s",
					why, strings.Join(left, ", "))
			}
		}
	}
	k, err := s.keep(ctx, v, from)
	if err != nil {
		return failed(f.What, err,
			"alter the table, or name another one with `table`. `replicator schema` prints the DDL of a missing table")
	}
	if len(k.loose) > 0 {
		c := k.loose[0]
		f.Level, f.Detail = replicator.Warn, fmt.Sprintf("%s: its column %s (%s) treats some different values as "+
			"equal. If two groups of the view then share a row, the view fails", f.Detail, c.name, c.collation)
		f.Fix = k.alter + ", and then `replicator verify --repair " + v.Name + "`"
		return f
	}
	if statements, err := s.narrower(ctx, k, from); err == nil && len(statements) > 0 {
		f.Level, f.Fix = replicator.Warn, strings.Join(statements, "; ")
		f.Detail += ": the source's columns are wider, and values that don't fit become dead letters"
		if settingsOf(v).Create {
			f.Detail = "table " + settingsOf(v).Table + ": the source's columns are wider. " +
				"A column that the program created is " +
				"widened when a row needs it, unless the server would have to copy a large table"
		}
	}
	return f
}

func (s *Sink) checkCreation(ctx context.Context, f replicator.Finding, v *replicator.View,
	from *origins) replicator.Finding {
	statement, err := s.design(ctx, v, from)
	if err == nil {
		err = s.uncreatable(ctx, v, statement)
	}
	if err != nil {
		return failed(f.What, err, "correct the view's fields and types, or create the table: `replicator schema` prints its DDL")
	}
	switch gone, err := s.gone(ctx, v); {
	case err != nil:
		f.Level, f.Detail = replicator.Fail, err.Error()
	case gone != "":
		f.Level = replicator.Warn
		f.Detail += " was dropped, with the contents of the view. " +
			"The view stops, unless on_lost = \"rebuild\" fills it again"
		f.Fix = "`replicator rebuild " + v.Name + "` creates the table and fills it"
	default:
		f.Detail += " is not there yet; the first start creates it"
		if narrow, err := s.shortType(ctx, v, from); err == nil && narrow != "" {
			f.Level, f.Detail = replicator.Warn, f.Detail+", and "+narrow
			f.Fix = "give the column at least the source's length in `types`, or remove the column there"
		}
	}
	return f
}

var lengthOf = regexp.MustCompile(`(?i)^\s*(?:var)?(?:char|binary)\s*\(\s*(\d+)\s*\)`)

// shortType describes the first column whose configured type is shorter than its source column; "" if there is none.
func (s *Sink) shortType(ctx context.Context, v *replicator.View, from *origins) (string, error) {
	for _, u := range usesOf(v) {
		given := lengthOf.FindStringSubmatch(settingsOf(v).Types[u.Name])
		if given == nil {
			continue
		}
		room, _ := strconv.Atoi(given[1])
		for _, feed := range v.From {
			column, err := from.column(ctx, s.tables[feed.Table], u.Path)
			if err != nil || column == nil {
				return "", err
			}
			holds := lengthOf.FindStringSubmatch(column.Type)
			if holds == nil {
				continue
			}
			if n, _ := strconv.Atoi(holds[1]); n > room {
				return fmt.Sprintf("its column %s takes %d characters, while %s of the source takes %d: rows with longer values "+
					"become dead letters", u.Name, room, column.Name, n), nil
			}
		}
	}
	return "", nil
}

func (s *Sink) checkRebuilds(ctx context.Context, what string) []replicator.Finding {
	var lacking []string
	for _, right := range []string{"CREATE", "ALTER", "DROP", "INSERT"} {
		if !s.has(ctx, right) {
			lacking = append(lacking, right)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return []replicator.Finding{{What: what + ": rebuilds", Level: replicator.Warn,
		Detail: "the user lacks " + strings.Join(lacking, " and ") + ", so views can only be rebuilt in place (rebuild --in-place)",
		Fix:    s.grant(ctx, s.database, strings.Join(lacking, ", "))}}
}
