package replicator

// Finding is one line of `check`: something that was looked at, and how to mend it if it is not as it must be.
type Finding struct {
	What   string // "source: binlog_format"
	Level  Level
	Detail string // what was found
	Fix    string // what to do; "" if it is as it must be
}

// Level says how bad a finding is.
type Level string

const (
	OK   Level = "ok"
	Warn Level = "warn" // it works, but something that people rely on may not
	Fail Level = "fail" // it does not work
)

// FixFor is what to do about err: fix, unless the source gave it, of which findings of its own tell.
func FixFor(err error, fix string) string {
	if IsOfSource(err) {
		return "see what is said of the source"
	}
	return fix
}
