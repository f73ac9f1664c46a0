package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-sql-driver/mysql"

	"replicator/internal/sqlname"
)

// Usable reports why OpenFile can't create or write the store in a directory; nil if it can. It leaves no files there.
// It takes no lock, so it also works for a store in use.
func Usable(dir string) error {
	at := filepath.Clean(dir)
	_, err := os.Stat(at)
	for errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) { // OpenFile would create the missing directories
		at = filepath.Dir(at)
		_, err = os.Stat(at)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: the state directory can't be used: %w", err)
	}
	probe, err := os.CreateTemp(at, ".replicator-check-*") // only writing reveals a read-only file system
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		return fmt.Errorf("checkpoint: the state directory %s can't be created or written: %w", dir, err)
	}
	for _, name := range []string{lockName, lettersName} { // another user's process may have left these files
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		switch {
		case err == nil:
			err = file.Close()
		case errors.Is(err, fs.ErrNotExist):
			err = nil
		}
		if err != nil {
			return fmt.Errorf("checkpoint: the state directory can't be written: %w", err)
		}
	}
	return nil
}

// UsableMySQL reports why OpenMySQL can't create or write the store in a database, as far as that can be found out
// without writing.
func UsableMySQL(ctx context.Context, dsn, prefix string) (err error) {
	db, t, err := connect(dsn, prefix, longLease)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// This creates no table, because the table after LIKE does not exist. The server first checks the user's
	// privileges.
	_, err = db.ExecContext(ctx, "CREATE TABLE "+t.checkpoints+" LIKE "+sqlname.Quote(prefix+"_none"))
	if code(err) != noSuchTable && code(err) != errTableExists {
		return lacksRights("creating", err)
	}
	for _, table := range []string{t.checkpoints, t.letters, t.layouts} {
		for _, statement := range []string{
			"DELETE FROM " + table + " WHERE FALSE",
			"INSERT INTO " + table + " SELECT * FROM " + table + " WHERE FALSE",
		} {
			if _, err := db.ExecContext(ctx, statement); err != nil && code(err) != noSuchTable {
				return lacksRights("writing", err)
			}
		}
	}
	return nil
}

const errTableExists = 1050

// code returns the number of an error that a server returned; 0: err is not such an error.
func code(err error) uint16 {
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		return refused.Number
	}
	return 0
}

func lacksRights(doing string, err error) error {
	return fmt.Errorf("checkpoint: %s the store's tables (the user needs CREATE, SELECT, INSERT, DELETE on the "+
		"database): %w", doing, err)
}
