package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// Each case compares its sink with the written rows, and fails on a difference.
func TestWhatIsLargeEndsAsItWasWritten(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and starts three servers for each case")
	}
	t.Parallel()
	o, err := parseBounds([]string{"-share", "0.0005", "-only", "letters,bombs"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = bounds(t.Context(), o, built(t), &out, io.Discard)
	if missing := (*servers.MissingError)(nil); errors.As(err, &missing) {
		servertest.Unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| letters: 100 rows, each a dead letter |",
		"| bombs: 1 bodies that"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}

func TestFlagsOfBounds(t *testing.T) {
	for args, wrong := range map[string]string{
		"": "", "-only bombs,body": "",
		"-only bomb": `unknown case "bomb"`, "-share 0": "-share must be above 0", "-share 2": "at most 1",
		"-server redis-7": "no binlog",
	} {
		_, err := parseBounds(strings.Fields(args), io.Discard)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%q: %v; it should say %q", args, err, wrong)
		}
	}
}
