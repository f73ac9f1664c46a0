package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// commandsOf are what the scripts of a kind run on users' keys.
var commandsOf = map[byte][][]string{
	kindHash:    {{"HSET", "f", "v"}, {"HDEL", "f"}},
	kindJSON:    {{"SET", "v"}, {"DEL"}},
	kindSet:     {{"SADD", "m"}, {"SREM", "m"}},
	kindMembers: {{"SADD", "m"}, {"SREM", "m"}},
	kindUnique:  {{"SET", "v"}, {"GET"}, {"DEL"}},
	kindCounter: {{"SET", "v"}, {"DEL"}},
	kindRanking: {{"ZADD", "1", "m"}, {"ZREM", "m"}},
}

// ownCommands are what the sink runs on its own keys.
var ownCommands = [][]string{
	{"GET"}, {"MGET"}, {"SET", "v"}, {"MSET", "v"}, {"GETRANGE", "0", "7"}, {"DEL"}, {"TYPE"},
	{"HGET", "f"}, {"HSET", "f", "v"}, {"HDEL", "f"}, {"EXISTS"}, {"HGETALL"}, {"HEXISTS", "f"}, {"HRANDFIELD"},
	{"SADD", "m"}, {"SREM", "m"}, {"SMEMBERS"}, {"SISMEMBER", "m"}, {"SSCAN", "0"},
}

// permissions asks the server what the user may do, without doing it.
type permissions struct {
	sink    *Sink
	user    string          // "": the server can't be asked
	silence error           // why not
	unknown map[string]bool // commands that the server does not have
}

// denied is what the user may not do.
type denied struct {
	user     string
	commands []string // that are not permitted
	keys     []string // that are not accessible: one is made up for a view, which a narrow pattern may rightly leave out
	unknown  []string // commands that the server does not have, as said of them
	silence  error    // why the server did not answer some questions
}

// asksPermissions finds out who the user is. Before 7.0 there is no dry run, or the user may not ask: the first write
// will tell then.
func (s *Sink) asksPermissions(ctx context.Context) permissions {
	p := permissions{sink: s, unknown: s.unknownCommands(ctx)}
	if p.user, p.silence = s.rdb.Do(ctx, "ACL", "WHOAMI").Text(); p.silence != nil {
		p.user = ""
	}
	return p
}

// unknownCommands are those of the sink's commands that a configuration took from the server (rename-command). A dry
// run says nothing of that.
func (s *Sink) unknownCommands(ctx context.Context) map[string]bool {
	names := []any{"COMMAND", "INFO", "EVALSHA", "EVAL", "SCAN"}
	for _, commands := range append(slices.Collect(maps.Values(commandsOf)), ownCommands) {
		for _, c := range commands {
			names = append(names, c[0])
		}
	}
	answer, err := s.rdb.Do(ctx, names...).Slice()
	unknown := map[string]bool{}
	if err == nil && len(answer) == len(names)-2 { // else the user may not ask: the first call will tell
		for i, a := range answer {
			if a == nil {
				unknown[names[i+2].(string)] = true
			}
		}
	}
	return unknown
}

// own is what of the sink's own doings the user may not do. Its own keys begin alike; one that can't be accessed is as
// bad as a command.
func (p permissions) own(ctx context.Context) denied {
	commands := [][]any{{"EVALSHA", "0", "0"}, {"EVAL", "return 1", "0"}, {"SCAN", "0"}}
	for _, c := range ownCommands {
		commands = append(commands, withKey(c, sourcesKey))
	}
	d := p.try(ctx, commands)
	d.commands, d.keys = append(d.commands, d.keys...), nil
	return d
}

// view is what of a view's commands the user may not do.
func (p permissions) view(ctx context.Context, k *keeper) denied {
	literal, _, _ := strings.Cut(k.view.Key, "{")
	var commands [][]any
	for _, c := range append(slices.Clone(commandsOf[k.kind]), []string{"TYPE"}) {
		commands = append(commands, withKey(c, literal+"check"))
	}
	return p.try(ctx, commands)
}

func (p permissions) try(ctx context.Context, commands [][]any) denied {
	d := denied{user: p.user, silence: p.silence}
	for _, c := range commands {
		if name := fmt.Sprint(c[0]); p.unknown[name] {
			if said := "the server has no command " + name; !slices.Contains(d.unknown, said) {
				d.unknown = append(d.unknown, said)
			}
			continue
		}
		if p.user == "" {
			continue
		}
		answer, err := p.sink.rdb.Do(ctx, append([]any{"ACL", "DRYRUN", p.user}, c...)...).Text()
		switch {
		case err != nil:
			d.silence = err
		case answer == "OK" || slices.Contains(d.commands, answer) || slices.Contains(d.keys, answer):
		case strings.Contains(answer, "access"):
			d.keys = append(d.keys, answer)
		default:
			d.commands = append(d.commands, answer)
		}
	}
	return d
}

// refusal is the error of what can't be done without the commands that are denied; nil if none is.
func (d denied) refusal() error {
	if len(d.unknown)+len(d.commands) == 0 {
		return nil
	}
	return replicator.Fatal(fmt.Errorf("%s; %s", d.detail(), d.fix()))
}

func (d denied) detail() string {
	return strings.Join(slices.Concat(d.unknown, d.commands, d.keys), "; ")
}

func (d denied) fix() string {
	const patterns = " ~" + prefix + "* ~PATTERN, where PATTERN is that of the views' keys"
	switch {
	case len(d.unknown) > 0:
		return "take its rename-command out of the server's configuration"
	case len(d.commands) == 0:
		return "ACL SETUSER " + d.user + patterns + "; unless those that it may access are all that the views have"
	}
	return "ACL SETUSER " + d.user + " +@read +@write +@scripting +@keyspace +info" + patterns
}

// level is how bad that is.
func (d denied) level() replicator.Level {
	switch {
	case len(d.unknown)+len(d.commands) > 0:
		return replicator.Fail
	case len(d.keys) > 0:
		return replicator.Warn
	}
	return replicator.OK
}

// mayNotAsk reports whether the server would have said more, but not to this user.
func (d denied) mayNotAsk() bool { return redis.HasErrorPrefix(d.silence, "NOPERM") }

func withKey(command []string, key string) []any {
	args := []any{command[0], key}
	for _, a := range command[1:] {
		args = append(args, a)
	}
	return args
}
