package remedy

import (
	"errors"
	"io/fs"
	"testing"
)

func TestCommandsAreCompletedWithTheFile(t *testing.T) {
	for text, want := range map[string]string{
		"nothing to do":                               "nothing to do",
		"see `replicator status`.":                    "see `replicator status -c /etc/app.toml`.",
		"`replicator rebuild a b`, or `replicator x`": "`replicator rebuild a b -c /etc/app.toml`, or `replicator x -c /etc/app.toml`",
		"`replicator status -c other.toml`":           "`replicator status -c other.toml`",
		"`replicator schema > x.sql`":                 "`replicator schema -c /etc/app.toml > x.sql`",
		"`replicator init --source DSN > x.toml`":     "`replicator init --source DSN > x.toml`",
		"`replicator explain --help`":                 "`replicator explain --help`",
		"replicator runs":                             "replicator runs",
		"`ALTER TABLE t`, `replicator check`":         "`ALTER TABLE t`, `replicator check -c /etc/app.toml`",
	} {
		f := File("/etc/app.toml")
		got := f.In(text)
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
		if again := f.In(got); again != got {
			t.Errorf("%s: the second time: %s", text, again)
		}
		if got := File("").In(text); got != text {
			t.Errorf("%s, without a file: %s", text, got)
		}
	}
	for path, want := range map[string]string{"/a b/c.toml": "'/a b/c.toml'", "/it's/$x": `'/it'\''s/$x'`,
		"/var/lib/r.toml": "/var/lib/r.toml"} {
		if got := File(path).In("`replicator check`"); got != "`replicator check -c "+want+"`" {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestACompletedErrorIsStillWhatItWas(t *testing.T) {
	err := File("/x.toml").Err(Named(errors.Join(fs.ErrExist, errors.New("`replicator rebuild VIEW…`")), "a b"))
	if !errors.Is(err, fs.ErrExist) || err.Error() != "file already exists\n`replicator rebuild a b -c /x.toml`" {
		t.Errorf("%v", err)
	}
	if File("/x").Err(nil) != nil || Named(nil, "a") != nil || File("/x").Err(fs.ErrExist) != fs.ErrExist {
		t.Error("what names no command is another error")
	}
}
