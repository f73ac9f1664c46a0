package mysql_test

import (
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// `explain` and `verify` also open views in read-only sinks, so opening a known view must write nothing.
func TestOpeningAKnownViewWritesNothing(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, namesTable)
		own := newSink(t, dsn)
		before := view("row", "names", "email")
		before.Fingerprint = "before"
		openTarget(t, own, before)
		openTarget(t, own, view("row", "names", "email")) // this ends the earlier definition
		_, limited := limitedUser(t, db, dsn, map[string]string{
			"names":            "SELECT, INSERT, UPDATE, DELETE", // Open tests these rights
			"replicator_views": "SELECT", "replicator_locks": "SELECT",
			"replicator_state": "SELECT", "replicator_horizons": "SELECT"})
		sink := newSink(t, limited)
		openTarget(t, sink, view("row", "names", "email"))
	})
}
