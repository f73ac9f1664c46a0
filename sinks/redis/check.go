package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// Check looks at what the views need of the server: its version, its memory and disk settings, permissions, and the views'
// definitions.
func (s *Sink) Check(ctx context.Context, views []*replicator.View) []replicator.Finding {
	what := func(name string) string { return "sink " + s.name + ": " + name }
	if err := s.rdb.Ping(ctx).Err(); err != nil {
		return []replicator.Finding{{What: what("connection"), Level: replicator.Fail, Detail: classify(err, "connecting").Error(),
			Fix: "correct url, username, password or TLS settings of the sink, or start the server"}}
	}
	findings := []replicator.Finding{{What: what("connection"), Level: replicator.OK, Detail: "it answers"}}
	nodes, err := s.nodes(ctx)
	if err != nil {
		return append(findings, replicator.Finding{What: what("cluster"), Level: replicator.Fail, Detail: err.Error(), Fix: "look at CLUSTER INFO"})
	}
	for i, n := range nodes {
		name := func(part string) string {
			if len(nodes) > 1 {
				return what(fmt.Sprintf("node %d: %s", i+1, part))
			}
			return what(part)
		}
		findings = append(findings, s.checkNode(ctx, n, name, i == 0, views)...)
	}
	for i, v := range views {
		if _, err := newKeeper(v, i); err != nil {
			findings = append(findings, replicator.Finding{What: "view " + v.Name, Level: replicator.Fail, Detail: err.Error(), Fix: "correct the view's definition"})
		}
	}
	return findings
}

func (s *Sink) checkNode(ctx context.Context, node redis.Cmdable, name func(string) string, first bool, views []*replicator.View) []replicator.Finding {
	var findings []replicator.Finding
	add := func(part string, level replicator.Level, detail, fix string) {
		findings = append(findings, replicator.Finding{What: name(part), Level: level, Detail: detail, Fix: fix})
	}
	if text, err := node.Info(ctx).Result(); err != nil {
		add("INFO", replicator.Warn, classify(err, "INFO").Error(), "let the user run INFO, so that version and settings can be looked at")
	} else {
		checkInfo(parseInfo(text), s.cluster, add)
	}
	if s.cluster {
		text, err := node.ClusterInfo(ctx).Result()
		switch info := parseInfo(text); {
		case err != nil:
			add("cluster", replicator.Warn, classify(err, "CLUSTER INFO").Error(), "let the user run CLUSTER INFO")
		case info["cluster_state"] != "ok":
			add("cluster", replicator.Fail, "cluster_state is "+info["cluster_state"], "look at CLUSTER INFO and CLUSTER SHARDS")
		default:
			add("cluster", replicator.OK, info["cluster_slots_assigned"]+" slots assigned", "")
		}
	}
	if first {
		findings = append(findings, s.checkPermissions(ctx, name, views)...)
	}
	return findings
}

// checkInfo looks at what INFO says.
func checkInfo(info map[string]string, cluster bool, add func(part string, level replicator.Level, detail, fix string)) {
	server, version := "Redis", info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		server, version = "Valkey", v
	}
	if tooOld(info["redis_version"]) {
		add("version", replicator.Fail, server+" "+version, "use 6.2 or newer")
	} else {
		add("version", replicator.OK, server+" "+version, "")
	}
	switch {
	case info["role"] == "slave":
		add("role", replicator.Fail, "the server is a replica, which takes no writes", "name the master, or set sentinel")
	case (info["redis_mode"] == "cluster") != cluster:
		add("mode", replicator.Fail, "the server's mode is "+info["redis_mode"], "set cluster = true for a cluster, and for nothing else")
	}
	policy := info["maxmemory_policy"]
	if limit := info["maxmemory"]; limit == "0" || policy == "noeviction" {
		add("maxmemory", replicator.OK, "nothing is evicted", "")
	} else {
		add("maxmemory", replicator.Warn, "maxmemory_policy is "+policy+": entries and what is remembered of them vanish when memory is short",
			"CONFIG SET maxmemory-policy noeviction")
	}
	if info["aof_enabled"] == "0" && info["rdb_last_save_time"] != "" && info["rdb_saves"] == "0" && info["connected_slaves"] == "0" {
		add("persistence", replicator.Warn, "no append-only file, no snapshot since it was started, no replica: a restart would empty it, and the views would have to be filled anew",
			"CONFIG SET appendonly yes")
	} else {
		add("persistence", replicator.OK, "aof_enabled is "+info["aof_enabled"]+", "+info["connected_slaves"]+" replicas", "")
	}
}

// tooOld reports whether a version comes before 6.2, which brought SET … GET and HRANDFIELD.
func tooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return err == nil && err2 == nil && (a < 6 || a == 6 && b < 2)
}

func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// commands are what the scripts of a kind run on users' keys.
var commands = map[byte][][]string{
	kindHash:    {{"HSET", "f", "v"}, {"HDEL", "f"}},
	kindJSON:    {{"SET", "v"}, {"DEL"}},
	kindSet:     {{"SADD", "m"}, {"SREM", "m"}},
	kindMembers: {{"SADD", "m"}, {"SREM", "m"}},
	kindUnique:  {{"SET", "v"}, {"GET"}, {"DEL"}},
	kindCounter: {{"SET", "v"}, {"DEL"}},
	kindRanking: {{"ZADD", "1", "m"}, {"ZREM", "m"}},
}

// ownCommands are what the sink runs on its own keys.
var ownCommands = [][]string{{"GET"}, {"MGET"}, {"SET", "v"}, {"GETRANGE", "0", "7"}, {"HGET", "f"}, {"HSET", "f", "v"}, {"HDEL", "f"}, {"HGETALL"},
	{"HEXISTS", "f"}, {"HRANDFIELD"}, {"SADD", "m"}, {"SMEMBERS"}, {"DEL"}, {"TYPE"}}

// checkPermissions asks the server what the user may do, without doing it.
func (s *Sink) checkPermissions(ctx context.Context, name func(string) string, views []*replicator.View) []replicator.Finding {
	user, err := s.rdb.Do(ctx, "ACL", "WHOAMI").Text()
	if err != nil {
		return nil // before 7.0 there is no dry run, or the user may not ask: the first write will tell
	}
	var missing, keys []string
	able := true
	try := func(command ...any) {
		answer, err := s.rdb.Do(ctx, append([]any{"ACL", "DRYRUN", user}, command...)...).Text()
		switch {
		case err != nil:
			able = false
		case strings.Contains(answer, "access"): // of a key made up here, which a narrow pattern may rightly leave out
			keys = append(keys, answer)
		case answer != "OK":
			missing = append(missing, answer)
		}
	}
	try("EVALSHA", "0", "0")
	try("EVAL", "return 1", "0")
	try("SCAN", "0")
	for _, c := range ownCommands {
		try(withKey(c, prefix+"check")...)
	}
	for i, v := range views {
		k, err := newKeeper(v, i)
		if err != nil {
			continue
		}
		literal, _, _ := strings.Cut(v.Key, "{")
		for _, c := range append(commands[k.kind], []string{"TYPE"}) {
			try(withKey(c, literal+"check")...)
		}
	}
	switch {
	case len(missing) > 0:
		return []replicator.Finding{{What: name("permissions"), Level: replicator.Fail, Detail: strings.Join(distinctTexts(missing), "; "),
			Fix: "ACL SETUSER " + user + " +@read +@write +@scripting +@keyspace ~" + prefix + "* and ~PATTERN for the views' keys"}}
	case len(keys) > 0:
		return []replicator.Finding{{What: name("permissions"), Level: replicator.Warn, Detail: strings.Join(distinctTexts(keys), "; "),
			Fix: "ACL SETUSER " + user + " ~" + prefix + "* and ~PATTERN for the views' keys, unless those that it may access are all that the views have"}}
	case !able:
		return nil
	}
	return []replicator.Finding{{What: name("permissions"), Level: replicator.OK, Detail: "user " + user + " may do all that the views need"}}
}

func withKey(command []string, key string) []any {
	args := []any{command[0], key}
	for _, a := range command[1:] {
		args = append(args, a)
	}
	return args
}

func distinctTexts(texts []string) []string {
	var once []string
	seen := map[string]bool{}
	for _, t := range texts {
		if !seen[t] {
			seen[t] = true
			once = append(once, t)
		}
	}
	return once
}
