package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "github.com/go-sql-driver/mysql" // driver for the demo's writer and checks
	"github.com/spf13/cobra"

	"replicator/config"
	"replicator/examples/jogchat"
	"replicator/internal/servers"
	"replicator/service"
	"replicator/sinks"
)

func demoCommand(*options) *cobra.Command {
	d := demo{}
	kind := string(servers.MySQL)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch replicator work with a temporary server and a writer",
		Long: `Starts its own database server in a temporary directory and creates the jogchat example in it. It
keeps the example's 17 index and row tables while a writer adds, renames, deletes and archives users,
companies and schools. After a minute, or when you press q, it stops the writer, compares every
table with the cells, prints the result, and removes everything that it created.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := servers.ParseKind(kind)
			if err != nil || !k.IsSQL() {
				return usageError{fmt.Errorf("--server %q: use mysql, mariadb-10.11 or mariadb-11.8", kind)}
			}
			d.kind, d.out = k, cmd.OutOrStdout()
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&kind, "server", kind, "mysql, mariadb-10.11 or mariadb-11.8")
	cmd.Flags().DurationVar(&d.duration, "duration", time.Minute, "how long the writer works")
	cmd.Flags().IntVar(&d.rate, "rate", 400, "transactions a second")
	return cmd
}

type demo struct {
	kind     servers.Kind
	duration time.Duration
	rate     int
	out      io.Writer

	db     *sql.DB
	app    *service.Service
	writer *jogchat.Writer
}

// say prints a text and breaks its lines to fit the terminal.
func (d *demo) say(text string) {
	columns, _ := newTerminal(d.out).size()
	for _, line := range wrapped(text, columns) {
		fmt.Fprintln(d.out, line)
	}
}

func (d *demo) run(ctx context.Context) (err error) {
	server, err := servers.Start(ctx, servers.Options{Kind: d.kind, Small: true, Progress: d.say})
	if err != nil {
		return fmt.Errorf("the demo needs a database server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	d.say(fmt.Sprintf("%s %s runs on %s", d.kind, server.Version, server.Addr()))
	dir, err := os.MkdirTemp("", "replicator-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := d.prepare(ctx, server); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.db.Close()) }()
	cfg, err := demoConfig(dir, map[string]string{"JOGCHAT_DSN": server.DSN("jogchat"),
		"JOGCHAT_STATE": filepath.Join(dir, "state"), "JOGCHAT_LISTEN": ""})
	if err != nil {
		return err
	}
	setup := service.Setup{Config: cfg, Log: slog.New(slog.DiscardHandler), OpenSink: openSink}
	if d.app, err = service.New(ctx, setup, nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.app.Close()) }()
	return d.show(ctx)
}

func (d *demo) prepare(ctx context.Context, server *servers.Server) error {
	root, err := sql.Open("mysql", server.DSN(""))
	if err != nil {
		return err
	}
	_, err = root.ExecContext(ctx, "CREATE DATABASE jogchat CHARACTER SET utf8mb4")
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}
	if d.db, err = sql.Open("mysql", server.DSN("jogchat")); err != nil {
		return err
	}
	for _, statement := range jogchat.Schema() {
		if _, err := d.db.ExecContext(ctx, statement); err != nil {
			return errors.Join(fmt.Errorf("creating the example's tables: %w", err), d.db.Close())
		}
	}
	d.writer = jogchat.NewWriter(d.db, uint64(time.Now().UnixNano()), 2000)
	return nil
}

// demoConfig writes the example's configuration file and loads it, with its variables set from env.
func demoConfig(dir string, env map[string]string) (*config.Config, error) {
	file := filepath.Join(dir, "replicator.toml")
	if err := os.WriteFile(file, []byte(jogchat.Config), 0o600); err != nil {
		return nil, err
	}
	return config.Load(file, func(name string) (string, bool) { v, ok := env[name]; return v, ok }, sinks.Types())
}

// show runs the writer and the program until the time is up or the user quits. Then it waits for the views and verifies
// them.
func (d *demo) show(ctx context.Context) error {
	seen, enough := context.WithTimeout(ctx, d.duration)
	defer enough()
	screen := newScreen(d.out, enough)
	defer screen.close()

	run, stopRun := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRun()
	var running, writing sync.WaitGroup
	var runErr, writeErr error
	running.Go(func() { runErr = d.app.Run(context.WithoutCancel(ctx), run) })
	writing.Go(func() { writeErr = d.write(seen) })

	for tick := time.NewTicker(screen.interval()); seen.Err() == nil; {
		select {
		case <-tick.C:
			if f := d.frame(seen); seen.Err() == nil { // after `seen` has ended, the frame may be incomplete
				screen.draw(f)
			}
		case <-seen.Done():
			tick.Stop()
		}
	}
	writing.Wait()
	screen.close()
	d.say("The writer has stopped. Waiting until every view includes what it wrote …")
	err := d.app.CatchUp(context.WithoutCancel(ctx))
	stopRun()
	running.Wait()
	if err = errors.Join(err, runErr, writeErr); err != nil {
		return err
	}
	return d.verify(context.WithoutCancel(ctx))
}

// write makes changes at the configured rate until ctx is done.
func (d *demo) write(ctx context.Context) error {
	tick := time.NewTicker(time.Second / time.Duration(max(1, d.rate)))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := d.writer.Step(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("the demo's writer: %w", err)
		}
	}
}

func (d *demo) verify(ctx context.Context) error {
	report, err := jogchat.Verify(ctx, d.db, d.db)
	if err != nil {
		return err
	}
	if len(report.Differences) > 0 {
		return fmt.Errorf("tables differ from the cells:\n%s", strings.Join(report.Differences, "\n"))
	}
	d.say(fmt.Sprintf("Verified: %d changes were written, and all %d tables (%d rows) match the newest cells.",
		d.writer.Written(), report.Tables, report.Rows))
	d.say("The server and its data are removed again. Next: README.md, \"Quick start\".")
	return nil
}
