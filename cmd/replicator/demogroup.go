package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/examples/jogchat"
	"replicator/internal/launch"
	"replicator/internal/servers"
	"replicator/server"
)

// demoGroup is what works beside the demo's own process with Kafka: the broker, the publisher, and two more members.
type demoGroup struct {
	broker    *servers.Server
	publisher *launch.Process
	members   []*launch.Process
	killed    string // who was killed; "": nobody yet
}

// startDemoGroup starts it in directories of their own. The environment gets the broker's address.
func startDemoGroup(ctx context.Context, dir string, env map[string]string, say func(string)) (
	g *demoGroup, err error,
) {
	g = &demoGroup{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	if g.broker, err = servers.Start(ctx, servers.Options{Kind: servers.Kafka, Small: true, Progress: say}); err != nil {
		return g, fmt.Errorf("the demo needs Kafka: %w", err)
	}
	env["JOGCHAT_BROKER"] = g.broker.Addr()
	publisher, err := demoProgram(dir, "publisher", jogchat.Publisher, env)
	if err != nil {
		return g, err
	}
	first, err := publisher.Start(ctx, "run", "--until-caught-up", "-c", publisher.File()) // which makes the topic
	if err == nil {
		err = first.Wait()
	}
	if err != nil {
		return g, err
	}
	if g.publisher, err = publisher.Start(context.WithoutCancel(ctx), "run", "-c", publisher.File()); err != nil {
		return g, err
	}
	for n := 2; n <= 3; n++ {
		member, err := demoProgram(dir, fmt.Sprint("member", n), jogchat.Member(), env)
		if err != nil {
			return g, err
		}
		running, err := member.Start(context.WithoutCancel(ctx), "run", "-c", member.File())
		if err != nil {
			return g, err
		}
		g.members = append(g.members, running)
	}
	say(fmt.Sprintf("process %d publishes the cells to Kafka; members of the group are %d (this one), %d and %d",
		g.publisher.Pid(), os.Getpid(), g.members[0].Pid(), g.members[1].Pid()))
	return g, nil
}

// demoProgram is this program with a directory and a configuration of its own.
func demoProgram(dir, name, text string, env map[string]string) (p launch.Program, err error) {
	if p.Path, err = os.Executable(); err != nil {
		return p, err
	}
	p.Dir = filepath.Join(dir, name)
	if err := os.Mkdir(p.Dir, 0o700); err != nil {
		return p, err
	}
	p.Env = append(os.Environ(), "JOGCHAT_STATE=state", "JOGCHAT_PUBLISHER_STATE=state", "JOGCHAT_LISTEN=",
		"JOGCHAT_PUBLISHER_LISTEN=")
	for _, own := range []string{"JOGCHAT_DSN", "JOGCHAT_BROKER"} {
		p.Env = append(p.Env, own+"="+env[own])
	}
	return p, p.Configure(text)
}

// killOne kills a member, once, as a crash would.
func (g *demoGroup) killOne() {
	if g.killed == "" {
		g.killed = fmt.Sprint("process ", g.members[0].Pid())
		g.members[0].Kill()
	}
}

// show says how many partitions each member has.
func (g *demoGroup) show(views []replicator.ViewStatus) string {
	of := map[string]map[string]bool{}
	for _, v := range views {
		name := "nobody"
		if v.Member != "" {
			name = v.Member[strings.LastIndexByte(v.Member, '-')+1:]
		}
		if of[name] == nil {
			of[name] = map[string]bool{}
		}
		of[name][v.Source] = true
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s: %d partitions", name, len(of[name])))
	}
	text := strings.Join(all, ", ")
	if g.killed != "" {
		text += "  (" + g.killed + " was killed)"
	}
	return text
}

// close ends all of it.
func (g *demoGroup) close() error {
	for _, p := range append(g.members, g.publisher) {
		if p != nil {
			p.Kill()
		}
	}
	if g.broker == nil {
		return nil
	}
	return g.broker.Close()
}

// binlogEnd is the end of the server's binlog, as a fence.
func binlogEnd(ctx context.Context, db *sql.DB) (fence server.Fence, err error) {
	rows, err := db.QueryContext(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return fence, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return fence, err
	}
	var name string
	var size int64
	into := []any{&name, &size}
	for range columns[2:] {
		into = append(into, new(any))
	}
	for rows.Next() { // the last one is written to
		if err := rows.Scan(into...); err != nil {
			return fence, err
		}
	}
	return server.Fence{At: name + ":" + strconv.FormatInt(size, 10)}, rows.Err()
}

// told says in the end what happened to the group.
func (g *demoGroup) told() string {
	if g.killed == "" {
		return "They went through Kafka, to three members; the time was too short to kill one."
	}
	return "They went through Kafka, to three members; " + g.killed + " was killed, and the others took over its partitions."
}
