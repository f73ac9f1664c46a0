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

// FixFor returns the advice that `check` shows for err. If err came from the source, the advice points to the findings
// on the source, which `check` reports separately. Otherwise FixFor returns its argument `advice`.
func FixFor(err error, advice string) string {
	if IsOfSource(err) {
		return "see the findings on the source"
	}
	return advice
}
