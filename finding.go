package replicator

// Finding is one line that the `check` command prints: what was checked, and how to fix it if it is wrong.
type Finding struct {
	What   string // what was checked, such as "source: binlog_format"
	Level  Level
	Detail string
	Fix    string // how to fix what is wrong; "" if nothing is
}

// Level says how bad a finding is.
type Level string

const (
	OK   Level = "ok"
	Warn Level = "warn" // the program works, but lacks something that operators rely on
	Fail Level = "fail" // the program does not work
)

// FixFor returns the advice for the operator. If err came from the source, that is a reference to the findings on the
// source, which `check` reports separately. Otherwise it is fix.
func FixFor(err error, fix string) string {
	if IsOfSource(err) {
		return "see the findings on the source"
	}
	return fix
}
