package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/keytemplate"
)

// commandsOf has, by kind of view, the commands that the scripts run on users' keys, with sample arguments.
var commandsOf = map[byte][][]string{
	kindHash:    {{"HSET", "f", "v"}, {"HDEL", "f"}},
	kindJSON:    {{"SET", "v"}, {"DEL"}},
	kindSet:     {{"SADD", "m"}, {"SREM", "m"}},
	kindMembers: {{"SADD", "m"}, {"SREM", "m"}},
	kindUnique:  {{"SET", "v"}, {"GET"}, {"DEL"}},
	kindCounter: {{"SET", "v"}, {"DEL"}},
	kindRanking: {{"ZADD", "1", "m"}, {"ZREM", "m"}},
}

func (k *keeper) commands() [][]string {
	commands := slices.Clone(commandsOf[k.kind])
	switch {
	case k.goes.after():
		commands = append(commands, []string{"PEXPIRE", "1"})
	case k.goes == never:
		commands = append(commands, []string{"PERSIST"})
	}
	return commands
}

// ownCommands are the commands that the sink runs on its own keys, with sample arguments.
var ownCommands = [][]string{
	{"GET"}, {"MGET"}, {"SET", "v"}, {"MSET", "v"}, {"GETRANGE", "0", "7"}, {"DEL"}, {"TYPE"},
	{"HGET", "f"}, {"HSET", "f", "v"}, {"HDEL", "f"}, {"EXISTS"}, {"HGETALL"}, {"HEXISTS", "f"}, {"HRANDFIELD"},
	{"SADD", "m"}, {"SREM", "m"}, {"SMEMBERS"}, {"SISMEMBER", "m"}, {"SSCAN", "0"},
}

// permissions asks the server what the user may do, by ACL DRYRUN.
type permissions struct {
	sink    *Sink
	user    string          // the user's name; "": the server can't be asked about permissions
	silence error           // the error if the server can't be asked about permissions; nil: it can
	unknown map[string]bool // commands that the server does not have
}

type denied struct {
	user     string
	commands []string // messages about commands that are not permitted
	keys     []string // messages about keys that are not permitted
	guessed  bool     // the tested keys were made up, so the user's key patterns may rightly exclude them
	pattern  string   // the key pattern that permits all keys of the view; "": unknown
	unknown  []string // messages about commands that the server does not have
	silence  error    // the last error of ACL WHOAMI or ACL DRYRUN; nil: none failed
}

// asksPermissions asks for the name of the user, for later dry runs. If the user may not ask, or the server is older
// than 7.0 and has no dry run, a missing permission shows only at the first write.
func (s *Sink) asksPermissions(ctx context.Context) permissions {
	p := permissions{sink: s, unknown: s.unknownCommands(ctx)}
	if p.user, p.silence = s.rdb.Do(ctx, "ACL", "WHOAMI").Text(); p.silence != nil {
		p.user = ""
	}
	return p
}

// unknownCommands returns the commands that the sink needs and that the server's configuration removed
// (rename-command). A dry run doesn't show that.
func (s *Sink) unknownCommands(ctx context.Context) map[string]bool {
	names := []any{"COMMAND", "INFO", "EVALSHA", "EVAL", "SCAN", "PEXPIRE", "PERSIST"}
	for _, commands := range append(slices.Collect(maps.Values(commandsOf)), ownCommands) {
		for _, c := range commands {
			names = append(names, c[0])
		}
	}
	answer, err := s.rdb.Do(ctx, names...).Slice()
	unknown := map[string]bool{}
	if err == nil && len(answer) == len(names)-2 { // otherwise the user may not run COMMAND INFO
		for i, a := range answer {
			if a == nil {
				unknown[names[i+2].(string)] = true
			}
		}
	}
	return unknown
}

// own returns what the user may not do with the sink's own keys. It tests one of them: all have the same prefix.
func (p permissions) own(ctx context.Context) denied {
	commands := [][]any{{"EVALSHA", "0", "0"}, {"EVAL", "return 1", "0"}, {"SCAN", "0"}}
	for _, c := range ownCommands {
		commands = append(commands, withKey(c, sourcesKey))
	}
	return p.try(ctx, commands)
}

// view returns what the user may not do at keys of a view. It asks about a made-up key, unless the view has only one
// key.
func (p permissions) view(ctx context.Context, k *keeper) denied {
	begins, many := k.begins()
	if many {
		d := p.tryView(ctx, k, begins+"check")
		d.guessed = true
		return d
	}
	return p.tryView(ctx, k, begins)
}

// viewAt returns what the user may not do at some keys of a view, by a dry run of script calls with these keys.
func (p permissions) viewAt(ctx context.Context, k *keeper, keys []string) denied {
	d := p.tryView(ctx, k, keys[0])
	d.keys = nil
	var calls [][]any
	for some := range slices.Chunk(keys, callArgs) {
		call := []any{"EVALSHA", "0", len(some)}
		for _, key := range some {
			call = append(call, key)
		}
		calls = append(calls, call)
	}
	if called := p.try(ctx, calls); len(called.keys) > 0 {
		// The message does not quote the keys, because they may contain values of rows.
		d.keys = []string{"the user has no permissions to access some of its keys"}
	}
	return d
}

func (p permissions) tryView(ctx context.Context, k *keeper, key string) denied {
	var commands [][]any
	for _, c := range append(k.commands(), []string{"TYPE"}) {
		commands = append(commands, withKey(c, key))
	}
	d := p.try(ctx, commands)
	begins, many := k.begins()
	if d.pattern = literally.Replace(begins); many && begins != "" {
		d.pattern += "*"
	}
	return d
}

// literally escapes a text for use in a key pattern.
var literally = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// begins returns the text that all keys of the view begin with. If many is false, the text is the only key.
func (k *keeper) begins() (text string, many bool) {
	parts, tail, err := keytemplate.Parse(k.view.Key)
	switch {
	case err != nil:
		return "", true
	case len(parts) > 0:
		return parts[0].Text, true
	}
	return tail, false
}

// try asks the server, in one round trip, whether the user may run the commands.
func (p permissions) try(ctx context.Context, commands [][]any) denied {
	d := denied{user: p.user, silence: p.silence}
	pipe := p.sink.rdb.Pipeline()
	var asked []*redis.Cmd
	for _, c := range commands {
		if name := fmt.Sprint(c[0]); p.unknown[name] {
			if said := "the server has no command " + name; !slices.Contains(d.unknown, said) {
				d.unknown = append(d.unknown, said)
			}
			continue
		}
		if p.user != "" {
			asked = append(asked, pipe.Do(ctx, append([]any{"ACL", "DRYRUN", p.user}, c...)...))
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, cmd := range asked {
		answer, err := cmd.Text()
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

// refusal returns the error that says which commands or keys the server denies to the user. It returns nil if the
// server denies nothing, or only made-up keys (d.guessed).
func (d denied) refusal() error {
	if d.level() != replicator.Fail {
		return nil
	}
	return replicator.Fatal(fmt.Errorf("%s; %s", d.detail(), d.fix()))
}

func (d denied) detail() string {
	return strings.Join(slices.Concat(d.unknown, d.commands, d.keys), "; ")
}

func (d denied) fix() string {
	if len(d.unknown) > 0 {
		return "take its rename-command out of the server's configuration"
	}
	line := "ACL SETUSER " + d.user
	if len(d.commands) > 0 {
		line += " +@read +@write +@scripting +@keyspace +info"
	}
	if len(d.keys) > 0 { // only if keys are denied: the server refuses to give a user with ~* another pattern
		line += " ~" + prefix + "* ~" +
			cmp.Or(d.pattern, "PATTERN, where PATTERN matches the views' keys, such as orders:*")
	}
	if len(d.keys) > 0 && d.guessed {
		line += "; unless the views have only keys that the user may access"
	}
	return line
}

func (d denied) level() replicator.Level {
	switch {
	case len(d.unknown)+len(d.commands) > 0, len(d.keys) > 0 && !d.guessed:
		return replicator.Fail
	case len(d.keys) > 0:
		return replicator.Warn
	}
	return replicator.OK
}

func (d denied) mayNotAsk() bool { return redis.HasErrorPrefix(d.silence, "NOPERM") }

// blame finds out which views lacked permissions for a failed write. A script call writes all views of an entity, and
// the server refuses it as a whole. If blame can't find out, it returns err.
func (t *Target) blame(ctx context.Context, err error, written []*entity) error {
	if !errors.Is(err, noPermission) {
		return err
	}
	may := t.sink.asksPermissions(ctx)
	if own := may.own(ctx).refusal(); own != nil {
		return own
	}
	keys := map[viewID][]string{}
	note := func(k viewKey) {
		keys[k.id] = append(keys[k.id], k.key)
		if other := beside(k.kind, k.key); other != "" {
			keys[k.id] = append(keys[k.id], other)
		}
	}
	for _, e := range written {
		for i := range e.plan.changes {
			note(e.plan.changes[i].viewKey)
		}
		for _, p := range e.plan.record.pending {
			note(p.viewKey)
		}
	}
	var refused []error
	for _, k := range t.keepers {
		if len(keys[k.shows]) == 0 {
			continue
		}
		if lacks := may.viewAt(ctx, k, keys[k.shows]).refusal(); lacks != nil {
			refused = append(refused, replicator.OfView(fmt.Errorf("view %s: %w", k.view.Name, lacks), k.view.Name))
		}
	}
	return cmp.Or(errors.Join(refused...), err)
}

func withKey(command []string, key string) []any {
	args := []any{command[0], key}
	for _, a := range command[1:] {
		args = append(args, a)
	}
	return args
}
