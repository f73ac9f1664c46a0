package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// What is kept through the kills is compared in full. How long a takeover took is not looked at.
func TestStandbyEndsWithEveryEntity(t *testing.T) {
	if os.Getenv("REPLICATOR_SOAK") == "" {
		t.Skip("starts three servers and eight processes, minutes: REPLICATOR_SOAK is not set")
	}
	o, err := parseStandby([]string{"-kills", "2", "-cells", "500", "-entities", "100"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = measureStandby(t.Context(), o, &out, io.Discard)
	if missing := (*servers.MissingError)(nil); errors.As(err, &missing) {
		servertest.Unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| an index table in MySQL | 2 | ", "| a topic in Kafka | 2 | ",
		"nothing: 100 entities compared |", "nothing: 100 entities compared, no step back in "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}

func TestFlagsOfStandby(t *testing.T) {
	for args, wrong := range map[string]string{
		"":                "",
		"-into kafka":     "",
		"-into redis":     `no sink "redis"`,
		"-kills 0":        "at least 1",
		"-server redis-7": "no binlog",
		"now":             "nothing else",
	} {
		_, err := parseStandby(strings.Fields(args), io.Discard)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%q: %v; it should say %q", args, err, wrong)
		}
	}
}
