package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"replicator/examples/jogchat"
	"replicator/internal/pause"
	"replicator/internal/servers"
)

// beforeKafka lists the faults that also make sense if the program publishes to Kafka and members maintain the views.
var beforeKafka = []string{
	"kill", "down", "stop", "freeze", "second", "late second", "lose state", "old state", "reset",
	"rotate", "column", "alter", "other table", "cut-over", "huge",
	"source killed", "source frozen", "main killed", "main frozen", "main set back", "cache killed", "cache frozen",
	"cache set back", "flush", "locked",
	"clock", "source clock",
	"source link cut", "source link silent", "main link cut", "main link refuse", "cache link cut", "cache link slow",
	"search link cut", "search link refuse",
}

// sessionAndMore is longer than the session timeouts of members and brokers.
const sessionAndMore = 8 * time.Second

// memberFaults disturb the members that apply Kafka's records.
func memberFaults() map[string]fault {
	one := func(w *world, f Fault) *process { return w.stream.members[int(f.Arg)%len(w.stream.members)] }
	return map[string]fault{
		"member killed": {about: "kill -9 of a member, and an immediate restart",
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				one(w, f).end(syscall.SIGKILL)
				return healed(one(w, f).start(ctx))
			}},
		"member down": {about: "kill -9 of a member, and a later restart",
			begin: func(_ context.Context, w *world, f Fault) (heal, error) {
				one(w, f).end(syscall.SIGKILL)
				return one(w, f).start, nil
			}},
		"member leaves": {about: "SIGTERM to a member, and a later restart",
			begin: func(_ context.Context, w *world, f Fault) (heal, error) {
				one(w, f).end(syscall.SIGTERM)
				return one(w, f).start, nil
			}},
		"member more": {about: "one more member for a while", begin: oneMore},
		"member frozen": {about: "SIGSTOP of a member for a while",
			begin: func(_ context.Context, w *world, f Fault) (heal, error) { return freeze(one(w, f)) }},
		"member asleep": {about: "SIGSTOP of a member for longer than its session timeout",
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				end, err := freeze(one(w, f))
				return end, errors.Join(err, pause.For(ctx, sessionAndMore))
			}},
		"members killed": {about: "kill -9 of all members, and an immediate restart",
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				w.endMembers()
				return healed(w.startMembers(ctx))
			}},
		"members set back": {about: "all members get older states, and the groups' offsets are reset to the beginning",
			begin: setMembersBack},
		"members anew": {about: "all members start again with empty sinks, at offset zero of a compacted topic",
			begin: beginAnew},
		"members rebuild": {about: "all members rebuild a view",
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				for _, m := range w.stream.members {
					if m.running == nil {
						continue
					}
					p, err := m.program.Start(context.WithoutCancel(ctx), "rebuild", "--in-place", w.any(f).Name, "-c",
						m.program.File())
					if err != nil {
						return nil, err
					}
					w.others = append(w.others, p)
				}
				return nil, nil
			}},
	}
}

func freeze(p *process) (heal, error) {
	if p.running == nil {
		return nil, errSkipped
	}
	frozen := p.running
	return func(context.Context) error { return frozen.Signal(syscall.SIGCONT) }, frozen.Signal(syscall.SIGSTOP)
}

// oneMore starts an additional member, which takes over a share of the partitions. The end of the fault makes that
// member leave.
func oneMore(ctx context.Context, w *world, _ Fault) (heal, error) {
	m, err := w.newMember()
	if err != nil {
		return nil, err
	}
	w.stream.others = append(w.stream.others, m)
	if err := m.start(ctx); err != nil {
		return nil, err
	}
	return func(context.Context) error { m.end(syscall.SIGTERM); return nil }, pause.For(ctx, time.Second)
}

// setMembersBack copies the members' states. The end of the fault restores the copies, so all members start again at
// older checkpoints.
func setMembersBack(ctx context.Context, w *world, _ Fault) (heal, error) {
	w.endMembers()
	kept, err := w.keepStates()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		w.endMembers()
		if err := w.putStates(kept); err != nil {
			return err
		}
		if err := w.setOffsetsBack(ctx); err != nil {
			w.say("%v", err) // the brokers may be down
		}
		return w.startMembers(ctx)
	}, w.startMembers(ctx)
}

// beginAnew waits until the topic is compacted. Then it deletes the members' states, and everything in the sinks,
// including their marks. The members then refill the views from the topic.
func beginAnew(ctx context.Context, w *world, f Fault) (heal, error) {
	if err := w.compacted(ctx, rand.New(rand.NewPCG(f.Arg, 3))); err != nil {
		return nil, err
	}
	w.reader.forgive()
	w.endMembers()
	for _, m := range w.stream.members {
		if err := os.RemoveAll(m.stateDir()); err != nil {
			return nil, err
		}
	}
	name := fmt.Sprintf("torture%d", w.plan.Seed)
	if w.plan.Store == "mysql" { // the members' states are in MySQL
		for _, table := range []string{"members_checkpoints", "members_dead_letters"} {
			if _, err := w.sourceDBs[0].ExecContext(ctx, "DROP TABLE IF EXISTS "+table); err != nil {
				w.say("%v", err) // the server may be down; its checkpoints then stay
			}
		}
	}
	for _, s := range append([]string{"DROP DATABASE " + name, "CREATE DATABASE " + name + " CHARACTER SET utf8mb4",
		"USE " + name}, jogchat.Schema()...) {
		if _, err := w.sinkDBs[0].ExecContext(ctx, s); err != nil {
			return nil, err
		}
	}
	if w.servers.elastic != "" {
		w.dropIndexes(ctx)
	}
	if err := w.redis.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	return healed(w.startMembers(ctx))
}

func (w *world) endMembers() {
	for _, m := range w.stream.members {
		m.end(syscall.SIGKILL)
	}
}

func (w *world) startMembers(ctx context.Context) error {
	for _, m := range w.stream.members {
		if err := m.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func brokerFaults() map[string]fault {
	one := func(w *world, f Fault) *servers.Server { return w.servers.brokers[int(f.Arg)%len(w.servers.brokers)] }
	return map[string]fault{
		"broker killed": {about: "a broker is killed, and restarted later",
			begin: func(_ context.Context, w *world, f Fault) (heal, error) {
				return one(w, f).Restart, one(w, f).Kill()
			}},
		"broker frozen": {about: "a broker does not answer for a while",
			begin: func(_ context.Context, w *world, f Fault) (heal, error) { return suspend(one(w, f)) }},
		"broker asleep": {about: "a broker does not answer for so long that others replace it",
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				end, err := suspend(one(w, f))
				return end, errors.Join(err, pause.For(ctx, sessionAndMore))
			}},
		"brokers killed": {about: "all brokers are killed, and restarted later",
			begin: func(_ context.Context, w *world, _ Fault) (heal, error) {
				var err error
				for _, b := range w.servers.brokers {
					err = errors.Join(err, b.Kill())
				}
				return func(ctx context.Context) error {
					for i, b := range w.servers.brokers { // in this order: the first is the controller
						if err := b.Restart(ctx); err != nil {
							return fmt.Errorf("broker %d: %w", i+1, err)
						}
					}
					return nil
				}, err
			}},
	}
}

func suspend(s *servers.Server) (heal, error) {
	if !s.Running() { // another fault stopped the server
		return nil, errSkipped
	}
	return func(context.Context) error {
		if !s.Running() {
			return nil
		}
		return s.Resume()
	}, s.Suspend()
}
