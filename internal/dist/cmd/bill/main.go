// Command bill writes the bill of materials of a built program, for a release that another tool than package dist
// makes:
//
//	go run ./internal/dist/cmd/bill -version V -time RFC3339 PROGRAM BILL
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"replicator/internal/dist"
)

func main() {
	version := flag.String("version", "", "the release's `version`")
	at := flag.String("time", "", "the commit's `time`")
	flag.Parse()
	if err := run(*version, *at, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(version, at string, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: bill -version V -time RFC3339 PROGRAM BILL")
	}
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return fmt.Errorf("bill: -time: %w", err)
	}
	return dist.WriteBill(args[1], args[0], dist.Release{Version: version, Time: t})
}
