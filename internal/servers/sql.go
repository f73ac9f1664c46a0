package servers

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// baseArgs returns the options for every run of mysqld or mariadbd. With them, the program ignores the machine's
// configuration in /etc/mysql.
//
// Each server has its own directory for temporary files, because a MariaDB server that starts removes all #sql… files
// in its directory. Servers that share a directory fail then ("Got error 6"), or crash.
func baseArgs(in *installation, temporary string) []string {
	args := []string{"--no-defaults", "--tmpdir=" + temporary}
	add := func(option string, names ...string) {
		if dir := in.firstDir(names...); dir != "" {
			args = append(args, option+"="+dir)
		}
	}
	add("--basedir", "usr")
	if in.kind.IsMariaDB() {
		add("--lc-messages-dir", "usr/share/mariadb", "usr/share/mysql")
		add("--character-sets-dir", "usr/share/mariadb/charsets", "usr/share/mysql/charsets")
		add("--plugin-dir", "usr/lib/mariadb/plugin", "usr/lib/mysql/plugin", "usr/lib64/mariadb/plugin")
	} else {
		add("--lc-messages-dir", "usr/share/mysql")
		add("--character-sets-dir", "usr/share/mysql/charsets")
		add("--plugin-dir", "usr/lib/mysql/plugin", "usr/lib64/mysql/plugin", "usr/lib/plugin")
		args = append(args, "--secure-file-priv=") // the default is a directory that must exist on the machine
		if in.kind != MySQL57 {
			args = append(args, "--mysqlx=OFF") // the X Plugin's default port is the same for all servers
		}
	}
	if os.Getuid() == 0 {
		args = append(args, "--user=root") // as root, mysqld does not start without this option
	}
	return args
}

// sqlArgs returns the server options that MySQL and MariaDB share: ports, paths, settings that save memory, and the
// settings that the README requires of a source. Everything else is the server's default, because users run the
// defaults.
func sqlArgs(in *installation, s *Server) []string {
	args := append(baseArgs(in, s.Dir),
		"--datadir="+filepath.Join(s.Dir, "data"),
		"--bind-address=127.0.0.1", "--port="+strconv.Itoa(s.Port),
		"--socket=../mysql.sock",            // relative to the data directory: a path over 107 bytes is refused
		"--server-id="+strconv.Itoa(s.Port), // must differ from a replica's, and log-bin on 5.7 requires one
		"--log-bin=binlog")
	if s.opts.Small {
		return append(args, "--innodb-buffer-pool-size=32M", "--innodb-log-buffer-size=4M",
			"--innodb-use-native-aio=0") // native AIO would take 2305 of the machine's 65536 slots for each server
	}
	return append(args, "--innodb-buffer-pool-size=256M")
}

func mysqlArgs(in *installation, s *Server) []string {
	args := sqlArgs(in, s)
	if s.opts.Small && !s.Kind.IsOldMySQL() {
		// The redo log is small, because it may be in memory. The Performance Schema takes 250 MB. The replicator only
		// queries it if GTIDs are off, and then the options from GTIDs turn it on again.
		args = append(args, "--innodb-redo-log-capacity=8M", "--performance-schema=OFF")
	}
	return args
}

func mariadbArgs(in *installation, s *Server) []string {
	args := append(sqlArgs(in, s), "--binlog-format=ROW")
	if s.opts.Small {
		args = append(args, "--innodb-log-file-size=8M", // small, because the log may be in memory
			"--skip-ssl") // from 11.4 on, a server creates a certificate at each start, which takes 1 to 5 s of CPU
	}
	return args
}

// GTIDs returns the options that turn GTIDs on or off; none if that is the default. MySQL 9 starts with GTIDs, and
// older MySQL without. MariaDB always has GTIDs.
func GTIDs(kind Kind, on bool) []string {
	switch {
	case on && kind.IsOldMySQL():
		return []string{"--gtid-mode=ON", "--enforce-gtid-consistency=ON"}
	case !on && kind == MySQL: // without GTIDs, the replicator queries the Performance Schema
		return []string{"--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", "--performance-schema=ON"}
	}
	return nil
}

// initialiseMySQL creates a data directory in which root@127.0.0.1 has all rights and no password.
func initialiseMySQL(ctx context.Context, in *installation, data string, args []string, log string) error {
	// --init-file requires one statement per line.
	users := "CREATE USER root@'127.0.0.1';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
	script := data + ".sql"
	if err := os.WriteFile(script, []byte(users), 0o644); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	command := append(baseArgs(in, filepath.Dir(data)), "--initialize-insecure", "--init-file="+script, "--datadir="+data)
	if !in.kind.IsOldMySQL() {
		// Each server starts with a copy of this data directory. With a small redo log, the copies are small. A server
		// enlarges the log of its copy.
		command = append(command, "--innodb-redo-log-capacity=8M")
	}
	if err := runLogged(ctx, nil, log, in.server(), append(command, args...)...); err != nil {
		return err
	}
	// Without auto.cnf, each server creates its own server_uuid.
	return errors.Join(os.Remove(script), os.Remove(filepath.Join(data, "auto.cnf")))
}

// initialiseMariaDB does the work of mariadb-install-db. That script can't be used, because it expects installed paths.
func initialiseMariaDB(ctx context.Context, in *installation, data string, args []string, log string) error {
	if err := os.MkdirAll(data, 0o755); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	share := in.firstDir("usr/share/mariadb", "usr/share/mysql")
	// --bootstrap requires one statement per line. The files' names changed in MariaDB 11.
	script := bytes.NewBufferString("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n")
	for _, pattern := range []string{"m*_system_tables.sql", "m*_performance_tables.sql", "m*_system_tables_data.sql",
		"fill_help_tables.sql", "maria_add_gis_sp_bootstrap.sql", "m*_sys_schema.sql"} {
		files, err := filepath.Glob(filepath.Join(share, pattern))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("servers: %s contains no %s, which a new data directory needs", share, pattern)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("servers: %w", err)
			}
			for line := range strings.Lines(string(text)) {
				if !strings.Contains(line, "@current_hostname") { // only mariadb-install-db sets this variable
					script.WriteString(line)
				}
			}
		}
	}
	command := append(baseArgs(in, filepath.Dir(data)), "--bootstrap", "--datadir="+data, "--enforce-storage-engine=",
		"--max-allowed-packet=8M",
		"--net-buffer-length=16K", "--innodb-log-file-size=8M")
	return runLogged(ctx, script, log, in.server(), append(command, args...)...)
}

func runLogged(ctx context.Context, stdin io.Reader, log, program string, args ...string) error {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, out, out
	if err := runTied(cmd); err != nil {
		return fmt.Errorf("servers: %s: creating a data directory: %w", program, err)
	}
	return nil
}

func sqlConfig(addr, db string) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "root", "tcp", addr, db
	return cfg
}

func sqlDSN(addr, db string) string { return sqlConfig(addr, db).FormatDSN() }

// pingSQL logs in and asks for the data directory, so that it does not accept a different server on the same port. If
// the caller's options make the server reject root, the rejection counts as an answer.
func pingSQL(ctx context.Context, s *Server) error {
	cfg := sqlConfig(s.Addr(), "")
	cfg.Timeout, cfg.ReadTimeout = pingTimeout, pingTimeout
	cfg.Logger = &mysql.NopLogger{} // a starting server aborts connections, which the driver would log
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	var data string
	if err := db.QueryRowContext(ctx, "SELECT @@datadir").Scan(&data); err != nil {
		var refused *mysql.MySQLError
		if errors.As(err, &refused) && slices.Contains([]uint16{1045, 1698, 1862, 3159}, refused.Number) {
			return nil
		}
		return err
	}
	there, err := os.Stat(data)
	if err != nil {
		return fmt.Errorf("the server on port %d has another data directory: %w", s.Port, err)
	}
	here, err := os.Stat(filepath.Join(s.Dir, "data"))
	if err != nil {
		return err
	}
	if !os.SameFile(there, here) {
		return fmt.Errorf("another server answers on port %d. Its data directory is %s", s.Port, data)
	}
	return nil
}
