// Command servers fetches and runs the servers that the tests use, from a checkout:
//
//	go run ./internal/servers/cmd/servers fetch [KIND...]
//	go run ./internal/servers/cmd/servers up KIND [DIR [PORT [OPTION...]]]
//	go run ./internal/servers/cmd/servers lend COMMAND [ARG...]
//	go run ./internal/servers/cmd/servers count FILE
//
// up runs until Ctrl-C. Without DIR, up removes the data at its end. lend runs a command whose tests share servers (see
// servertest.Lender). count sums up a file that tests wrote to $REPLICATOR_TEST_COUNT.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func progress(text string) { fmt.Fprintln(os.Stderr, "servers:", text) }

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == "fetch":
		return fetch(ctx, args[1:])
	case len(args) > 1 && args[0] == "up":
		return up(ctx, args[1:])
	case len(args) > 1 && args[0] == "lend":
		return lend(ctx, args[1:])
	case len(args) == 2 && args[0] == "count":
		return servertest.WriteCount(os.Stdout, args[1])
	}
	return errors.New("usage: servers fetch [KIND...] | up KIND [DIR [PORT [OPTION...]]] | " +
		"lend COMMAND [ARG...] | count FILE")
}

func fetch(ctx context.Context, names []string) error {
	kinds := append(servers.AllSourceKinds(), servers.Redis7, servers.Elasticsearch, servers.OpenSearch, servers.Kafka)
	if len(names) > 0 {
		kinds = nil
	}
	for _, name := range names {
		kind, err := servers.ParseKind(name)
		if err != nil {
			return err
		}
		kinds = append(kinds, kind)
	}
	var all error
	for _, kind := range kinds {
		version, err := servers.Fetch(ctx, kind, progress)
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		fmt.Printf("%s %s\n", kind, version)
	}
	return all
}

func up(ctx context.Context, args []string) error {
	kind, err := servers.ParseKind(args[0])
	if err != nil {
		return err
	}
	opts := servers.Options{Kind: kind, Progress: progress}
	if len(args) > 1 {
		opts.Dir = args[1]
	}
	if len(args) > 2 {
		if opts.Port, err = strconv.Atoi(args[2]); err != nil {
			return fmt.Errorf("servers: %q is not a port", args[2])
		}
		opts.Args = args[3:]
	}
	s, err := servers.Start(ctx, opts)
	if err != nil {
		return err
	}
	fmt.Println(s.DSN(""))
	<-ctx.Done()
	return s.Close()
}

func lend(ctx context.Context, command []string) error {
	lender, err := servertest.NewLender()
	if err != nil {
		return err
	}
	return errors.Join(lender.Run(ctx, command[0], command[1:]...), lender.Close())
}
