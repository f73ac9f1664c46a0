package mysql

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
)

type blame int

const (
	rowFault     blame = iota // the written row is the cause; assumed for every error that is not in faults
	serverFault               // the server is the cause, whatever the table; the error is temporary
	passingFault              // the statement's table is the cause (other views go on); the error is temporary
	batchFault                // the batch is the cause: a smaller one may succeed; a single row's error is temporary
	sizeFault                 // the batch, or its single row, is too large
	userFault                 // the sink's user is the cause; the operator must fix the user or its rights
	tableFault                // the statement's table is the cause; the operator must fix the table
)

type fault struct {
	name  string // the error's name in the servers' manuals
	blame blame
	means string // the error's meaning, in words that contain no value; "" if plain is set
	plain bool   // the server's message contains no value, so it may be shown
}

// faults are the known errors of MySQL and MariaDB. Any other error counts as caused by the written row, because a
// value, a trigger or an index can cause hundreds of different errors. A message may quote a value, and values must not
// reach a log. So the server's message is shown only for a fault whose field `plain` is true.
var faults = map[uint16]fault{
	// The server rolls back a transaction in favor of another one, stops, accepts no writes, is full, or reached a
	// limit.
	1015: {name: "ER_CANT_LOCK", blame: serverFault, means: "the server can't lock a file"},
	1021: {name: "ER_DISK_FULL", blame: serverFault, means: "the server's disk is full"},
	1030: {name: "ER_GET_ERRNO", blame: serverFault, means: "the storage engine failed"},
	1036: {name: "ER_OPEN_AS_READONLY", blame: serverFault, means: "the table is read-only"},
	1037: {name: "ER_OUTOFMEMORY", blame: serverFault, means: "the server is out of memory"},
	1038: {name: "ER_OUT_OF_SORTMEMORY", blame: serverFault, means: "the server is out of memory for sorting"},
	1040: {name: "ER_CON_COUNT_ERROR", blame: serverFault, plain: true},
	1041: {name: "ER_OUT_OF_RESOURCES", blame: serverFault, means: "the server is out of memory"},
	1047: {name: "ER_UNKNOWN_COM_ERROR", blame: serverFault, means: "the node of the cluster is not ready"}, // from Galera
	1053: {name: "ER_SERVER_SHUTDOWN", blame: serverFault, plain: true},
	1077: {name: "ER_NORMAL_SHUTDOWN", blame: serverFault, means: "the server shuts down"},
	1079: {name: "ER_SHUTDOWN_COMPLETE", blame: serverFault, means: "the server shuts down"},
	1105: {name: "ER_UNKNOWN_ERROR", blame: serverFault, means: "the server does not say what failed"},
	1114: {name: "ER_RECORD_FILE_FULL", blame: serverFault, plain: true}, // also sent if the disk is full
	1135: {name: "ER_CANT_CREATE_THREAD", blame: serverFault, means: "the server can't start a thread"},
	1180: {name: "ER_ERROR_DURING_COMMIT", blame: serverFault, means: "the commit failed"},
	1181: {name: "ER_ERROR_DURING_ROLLBACK", blame: serverFault, means: "the rollback failed"},
	1192: {name: "ER_LOCK_OR_ACTIVE_TRANSACTION", blame: serverFault, means: "the session is in another transaction"},
	1203: {name: "ER_TOO_MANY_USER_CONNECTIONS", blame: serverFault, means: "the user has too many connections"},
	1213: {name: "ER_LOCK_DEADLOCK", blame: serverFault, plain: true},
	1223: {name: "ER_CANT_UPDATE_WITH_READLOCK", blame: serverFault, means: "all tables are locked for reading"},
	1226: {name: "ER_USER_LIMIT_REACHED", blame: serverFault, means: "the user has reached one of the server's limits"},
	1290: {name: "ER_OPTION_PREVENTS_STATEMENT", blame: serverFault, plain: true}, // the option is usually read_only
	1296: {name: "ER_GET_ERRMSG", blame: serverFault, means: "the storage engine failed"},
	1297: {name: "ER_GET_TEMPORARY_ERRMSG", blame: serverFault, means: "the storage engine failed for a moment"},
	1317: {name: "ER_QUERY_INTERRUPTED", blame: serverFault, plain: true},
	1613: {name: "ER_XA_RBTIMEOUT", blame: serverFault, means: "the transaction took too long"},
	1614: {name: "ER_XA_RBDEADLOCK", blame: serverFault, means: "a deadlock"},
	1637: {name: "ER_TOO_MANY_CONCURRENT_TRXS", blame: serverFault, means: "there are too many transactions"},
	1792: {name: "ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION", blame: serverFault, plain: true},
	1815: {name: "ER_INTERNAL_ERROR", blame: serverFault, means: "the server had an internal error"},
	1836: {name: "ER_READ_ONLY_MODE", blame: serverFault, plain: true},
	1874: {name: "ER_INNODB_READ_ONLY", blame: serverFault, means: "InnoDB is read-only"},
	1881: {name: "ER_INNODB_FORCED_RECOVERY", blame: serverFault, means: "InnoDB is read-only while it recovers"},
	1927: {name: "ER_CONNECTION_KILLED", blame: serverFault, means: "the connection was killed"},
	3024: {name: "ER_QUERY_TIMEOUT", blame: serverFault, plain: true},
	3058: {name: "ER_USER_LOCK_DEADLOCK", blame: serverFault, means: "a deadlock"},
	3100: {name: "ER_RUN_HOOK_ERROR", blame: serverFault, means: "the replication group rejected the transaction"},
	3101: {name: "ER_TRANSACTION_ROLLBACK_DURING_COMMIT", blame: serverFault,
		means: "the replication group rolled the transaction back"},
	3168: {name: "ER_SERVER_ISNT_AVAILABLE", blame: serverFault, means: "the server is not available"},
	3169: {name: "ER_SESSION_WAS_KILLED", blame: serverFault, means: "the session was killed"},
	3185: {name: "ER_CANNOT_FIND_KEY_IN_KEYRING", blame: serverFault, means: "the keyring lacks the table's key"},
	4031: {name: "ER_CLIENT_INTERACTION_TIMEOUT", blame: serverFault, means: "the connection was idle for too long"},

	// The table is temporarily unusable, because of another session's lock or statement, or until it is repaired.
	1016: {name: "ER_CANT_OPEN_FILE", blame: passingFault, means: "the table can't be opened"},
	1020: {name: "ER_CHECKREAD", blame: passingFault, means: "a row changed since it was read"},
	1034: {name: "ER_NOT_KEYFILE", blame: passingFault, means: "an index of the table is damaged"},
	1035: {name: "ER_OLD_KEYFILE", blame: passingFault, means: "an index of the table has an old format"},
	1193: {name: "ER_UNKNOWN_SYSTEM_VARIABLE", blame: passingFault, plain: true},
	1194: {name: "ER_CRASHED_ON_USAGE", blame: passingFault, means: "the table is damaged"},
	1195: {name: "ER_CRASHED_ON_REPAIR", blame: passingFault, means: "the table is damaged"},
	1205: {name: "ER_LOCK_WAIT_TIMEOUT", blame: passingFault, plain: true},
	1217: {name: "ER_ROW_IS_REFERENCED", blame: passingFault, means: "another table refers to the row"},
	1412: {name: "ER_TABLE_DEF_CHANGED", blame: passingFault, means: "the table was altered meanwhile"},
	1451: {name: "ER_ROW_IS_REFERENCED_2", blame: passingFault, means: "another table refers to the row"},
	1712: {name: "ER_INDEX_CORRUPT", blame: passingFault, means: "an index of the table is damaged"},
	1812: {name: "ER_TABLESPACE_MISSING", blame: passingFault, means: "the table's file is missing"},
	1814: {name: "ER_TABLESPACE_DISCARDED", blame: passingFault, means: "the table's file was discarded"},
	1932: {name: "ER_NO_SUCH_TABLE_IN_ENGINE", blame: passingFault, means: "the engine lacks the table"},
	3572: {name: "ER_LOCK_NOWAIT", blame: passingFault, means: "another session holds the lock"},

	// The transaction or statement is too large.
	1153: {name: "ER_NET_PACKET_TOO_LARGE", blame: sizeFault, means: "the row is larger than max_allowed_packet"},
	1197: {name: "ER_TRANS_CACHE_FULL", blame: sizeFault, means: "the row is larger than max_binlog_cache_size"},
	1206: {name: "ER_LOCK_TABLE_FULL", blame: batchFault, means: "InnoDB's buffer pool has no room for more locks"},
	1436: {name: "ER_STACK_OVERRUN_NEED_MORE", blame: sizeFault, means: "the row needs a larger thread_stack"},
	1534: {name: "ER_BINLOG_ROW_LOGGING_FAILED", blame: batchFault, means: "the server can't write its binlog"},
	1705: {name: "ER_STMT_CACHE_FULL", blame: sizeFault, means: "the row is larger than max_binlog_stmt_cache_size"},
	1969: {name: "ER_STATEMENT_TIMEOUT", blame: batchFault, means: "it exceeded max_statement_time"},

	// The operator must fix the user or its rights.
	1045: {name: "ER_ACCESS_DENIED_ERROR", blame: userFault, plain: true},
	1698: {name: "ER_ACCESS_DENIED_NO_PASSWORD_ERROR", blame: userFault, plain: true},
	1820: {name: "ER_MUST_CHANGE_PASSWORD", blame: userFault, plain: true},
	1862: {name: "ER_MUST_CHANGE_PASSWORD_LOGIN", blame: userFault, plain: true},
	3118: {name: "ER_ACCOUNT_HAS_BEEN_LOCKED", blame: userFault, plain: true},

	// The operator must fix the table, its triggers, or the rights on it.
	1044: {name: "ER_DBACCESS_DENIED_ERROR", blame: tableFault, plain: true},
	1049: {name: "ER_BAD_DB_ERROR", blame: tableFault, plain: true},
	1054: {name: "ER_BAD_FIELD_ERROR", blame: tableFault, plain: true},
	1064: {name: "ER_PARSE_ERROR", blame: tableFault, means: "the server does not understand the statement"},
	1068: {name: "ER_MULTIPLE_PRI_KEY", blame: tableFault, plain: true},
	1072: {name: "ER_KEY_COLUMN_DOES_NOT_EXITS", blame: tableFault, plain: true},
	1091: {name: "ER_CANT_DROP_FIELD_OR_KEY", blame: tableFault, plain: true},
	1109: {name: "ER_UNKNOWN_TABLE", blame: tableFault, means: "a trigger names a table that does not exist"},
	1136: {name: "ER_WRONG_VALUE_COUNT_ON_ROW", blame: tableFault, means: "the table's columns changed"},
	1142: {name: "ER_TABLEACCESS_DENIED_ERROR", blame: tableFault, plain: true},
	1143: {name: "ER_COLUMNACCESS_DENIED_ERROR", blame: tableFault, plain: true},
	1146: {name: "ER_NO_SUCH_TABLE", blame: tableFault, plain: true},
	1227: {name: "ER_SPECIFIC_ACCESS_DENIED_ERROR", blame: tableFault, plain: true},
	1267: {name: "ER_CANT_AGGREGATE_2COLLATIONS", blame: tableFault,
		means: "collations of the table's columns can't be combined"},
	1305: {name: "ER_SP_DOES_NOT_EXIST", blame: tableFault, means: "a trigger calls a routine that does not exist"},
	1356: {name: "ER_VIEW_INVALID", blame: tableFault, means: "a trigger reads a view that can't be read"},
	1364: {name: "ER_NO_DEFAULT_FOR_FIELD", blame: tableFault, plain: true},
	1370: {name: "ER_PROCACCESS_DENIED_ERROR", blame: tableFault, plain: true},
	1415: {name: "ER_SP_NO_RETSET", blame: tableFault, means: "a trigger returns rows"},
	1422: {name: "ER_COMMIT_NOT_ALLOWED_IN_SF_OR_TRG", blame: tableFault, means: "a trigger commits"},
	1442: {name: "ER_CANT_UPDATE_USED_TABLE_IN_SF_OR_TRG", blame: tableFault, means: "a trigger writes to its own table"},
	1449: {name: "ER_NO_SUCH_USER", blame: tableFault, means: "a trigger's DEFINER does not exist"},
	1598: {name: "ER_BINLOG_LOGGING_IMPOSSIBLE", blame: tableFault, means: "the server can't log a write to the table"},
	1665: {name: "ER_BINLOG_STMT_MODE_AND_ROW_ENGINE", blame: tableFault, plain: true},
	1785: {name: "ER_GTID_UNSAFE_NON_TRANSACTIONAL_TABLE", blame: tableFault,
		means: "a trigger writes to a table that has no transactions"},
	3098: {name: "ER_BEFORE_DML_VALIDATION_ERROR", blame: tableFault,
		means: "the replication group accepts no writes to such a table"},
	3108: {name: "ER_DEPENDENT_BY_GENERATED_COLUMN", blame: tableFault, plain: true},
	3959: {name: "ER_DEPENDENT_BY_CHECK_CONSTRAINT", blame: tableFault, plain: true},

	// A value is the cause. These are the usual errors, listed for their descriptions.
	1048: {name: "ER_BAD_NULL_ERROR", means: "NULL in a column that is NOT NULL"},
	1062: {name: "ER_DUP_ENTRY", means: "another row has the same unique key"},
	1264: {name: "ER_WARN_DATA_OUT_OF_RANGE", means: "a number is out of the column's range"},
	1265: {name: "WARN_DATA_TRUNCATED", means: "a value doesn't fit the column"},
	1292: {name: "ER_TRUNCATED_WRONG_VALUE", means: "a date or time is not valid"},
	1300: {name: "ER_INVALID_CHARACTER_STRING", means: "a text is not valid in the column's character set"},
	1366: {name: "ER_TRUNCATED_WRONG_VALUE_FOR_FIELD", means: "a value doesn't fit the column's type or character set"},
	1406: {name: "ER_DATA_TOO_LONG", means: "a value is too long for the column"},
	1452: {name: "ER_NO_REFERENCED_ROW_2", means: "the row that a foreign key refers to is missing"},
	1644: {name: "ER_SIGNAL_EXCEPTION", means: "a trigger refused the row"},
	3140: {name: "ER_INVALID_JSON_TEXT", means: "a text is not valid JSON"},
	3819: {name: "ER_CHECK_CONSTRAINT_VIOLATED", means: "a CHECK constraint refuses the row"},
	4025: {name: "ER_CONSTRAINT_FAILED", means: "a CHECK constraint refuses the row"},
}

// faultOf returns what is known of a server's error. An unknown number counts as temporary if the SQLSTATE means a lost
// connection (08) or a rolled-back transaction (40). A SIGNAL may use any number, so its number means nothing.
func faultOf(e *mysql.MySQLError) fault {
	state := string(e.SQLState[:])
	f, known := faults[e.Number]
	switch {
	case signalled(e):
		return faults[1644]
	case !known && (strings.HasPrefix(state, "08") || strings.HasPrefix(state, "40")):
		return fault{name: "SQLSTATE " + state, blame: serverFault}
	}
	return f
}

// signalled reports whether an error comes from a SIGNAL statement: SQLSTATE class 45 is reserved for such errors.
func signalled(e *mysql.MySQLError) bool { return strings.HasPrefix(string(e.SQLState[:]), "45") }

func blames(err error) (b blame, ok bool) {
	var e *mysql.MySQLError
	switch {
	case errors.As(err, &e):
		return faultOf(e).blame, true
	case errors.Is(err, mysql.ErrPktTooLarge):
		return sizeFault, true
	}
	return 0, false
}

func tooMuch(err error) bool {
	b, ok := blames(err)
	return ok && (b == batchFault || b == sizeFault)
}

// rowReason returns why the server refused a row, without any value of it; "" if the row is not the cause. The sink's
// own tables refuse only rows that are too large.
func rowReason(err error) string {
	var at *viewError
	if b, ok := blames(err); !ok || b != rowFault && b != sizeFault || !errors.As(err, &at) {
		return ""
	} else if b == rowFault && at.view == allViews && !is(err, 1118, 1406) {
		return ""
	}
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return faults[1153].means
	}
	reason := faultOf(e).means
	if reason == "" {
		reason = "the server refuses the row"
	}
	return fmt.Sprintf("%s (error %d, SQLSTATE %s)", reason, e.Number, e.SQLState[:])
}
