package replicator

// Finding is one line of `check`: the thing that was checked, and how to fix it if it is wrong.
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
	Warn Level = "warn" // it works, but without something that people rely on
	Fail Level = "fail" // it does not work
)

// FixFor returns the advice on err: fix, unless err came from the source, which has findings of its own.
func FixFor(err error, fix string) string {
	if IsOfSource(err) {
		return "see the findings on the source"
	}
	return fix
}
