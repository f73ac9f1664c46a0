package redis

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"replicator"
)

type report []replicator.Finding

func (r *report) add(what string, level replicator.Level, detail, fix string) {
	*r = append(*r, replicator.Finding{What: what, Level: level, Detail: detail, Fix: fix})
}

// Check checks what the views need of the server (version, memory and disk settings, permissions), and the views'
// definitions.
func (s *Sink) Check(ctx context.Context, views []*replicator.View) []replicator.Finding {
	var found report
	what := func(name string) string { return "sink " + s.name + ": " + name }
	if err := s.rdb.Ping(ctx).Err(); err != nil {
		fix := "correct url, username, password or TLS settings of the sink, or start the server"
		if passes(err) {
			fix = "the sink's settings are right: correct what this error says on the server, or wait until it passes"
		}
		found.add(what("connection"), replicator.Fail, classify(err, "connecting").Error(), fix)
		return found
	}
	found.add(what("connection"), replicator.OK, "it answers", "")
	nodes, err := s.nodes(ctx)
	if err != nil {
		found.add(what("cluster"), replicator.Fail, err.Error(), mendCluster+"; or, if the user may not run "+
			"CLUSTER SLOTS, "+s.allow("+cluster"))
		return found
	}
	for i, n := range nodes {
		s.checkNode(ctx, n, func(part string, level replicator.Level, detail, fix string) {
			if len(nodes) > 1 {
				part = fmt.Sprintf("node %d: %s", i+1, part)
			}
			found.add(what(part), level, detail, fix)
		})
	}
	may := s.asksPermissions(ctx)
	switch d := may.own(ctx); {
	case d.level() != replicator.OK:
		found.add(what("permissions"), d.level(), d.detail(), d.fix())
	case d.mayNotAsk():
		found.add(what("permissions"), replicator.Warn, "the user may not ask for its own permissions: a missing "+
			"one shows only when it is needed, and then stops every view", "ACL SETUSER "+cmp.Or(d.user, s.user, "default")+
			" +acl|whoami +acl|dryrun")
	case d.silence == nil:
		found.add(what("permissions"), replicator.OK, "user "+d.user+" may do all that is needed", "")
	}
	for i, v := range views {
		s.checkView(ctx, v, i, may, &found)
	}
	return found
}

// mendCluster is the fix if a cluster lacks nodes or slots.
const mendCluster = "`redis-cli --cluster check HOST:PORT` names the nodes and slots that are missing: start these " +
	"nodes, or assign the slots to other nodes"

// allow returns the command that gives the sink's user a permission. If only the URL names the user, s.user is "", and
// the command has a placeholder.
func (s *Sink) allow(permission string) string {
	return "ACL SETUSER " + cmp.Or(s.user, "USER (the sink's user)") + " " + permission
}

type adder func(part string, level replicator.Level, detail, fix string)

func (s *Sink) checkNode(ctx context.Context, node redis.Cmdable, add adder) {
	if text, err := node.Info(ctx).Result(); err != nil {
		add("INFO", replicator.Warn, classify(err, "INFO").Error(), s.allow("+info")+
			". INFO shows version and settings, and reveals evictions and failovers that lost the last writes")
	} else {
		checkInfo(parseInfo(text), s.cluster, add)
	}
	if !s.cluster {
		return
	}
	text, err := node.ClusterInfo(ctx).Result()
	switch info := parseInfo(text); {
	case err != nil:
		add("cluster", replicator.Warn, classify(err, "CLUSTER INFO").Error(), s.allow("+cluster"))
	case info["cluster_state"] != "ok":
		add("cluster", replicator.Fail, "cluster_state is "+info["cluster_state"], mendCluster)
	default:
		add("cluster", replicator.OK, info["cluster_slots_assigned"]+" slots assigned", "")
	}
}

func checkInfo(info map[string]string, cluster bool, add adder) {
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
		add("role", replicator.Fail, "the server is a replica, which takes no writes", "set url to the master; or "+
			"set urls to the sentinels, and sentinel to the name by which they know the master")
	case (info["redis_mode"] == "cluster") != cluster:
		add("mode", replicator.Fail, "the server's mode is "+info["redis_mode"],
			"set cluster = true for a cluster, and for nothing else")
	}
	switch policy := info["maxmemory_policy"]; {
	case info["maxmemory"] == "0", policy == "noeviction" && !isFull(info):
		add("maxmemory", replicator.OK, "nothing is evicted", "")
	case policy == "noeviction":
		add("maxmemory", replicator.Fail, "used_memory is "+info["used_memory"]+" of "+info["maxmemory"]+
			" bytes: it takes no writes", "CONFIG SET maxmemory to more, or remove what is not needed there")
	case strings.HasPrefix(policy, "volatile-"):
		add("maxmemory", replicator.Warn, "maxmemory_policy is "+policy+": keys with an expiry vanish early when memory is "+
			"short, and once there are none the server takes no writes", setNoEviction)
	default:
		add("maxmemory", replicator.Fail, "maxmemory_policy is "+policy+": when memory is short the server drops the "+
			"program's own records of rows and sums", setNoEviction)
	}
	saved := info["aof_enabled"] != "0" || info["rdb_last_save_time"] == "" || info["rdb_saves"] != "0"
	if saved || info["connected_slaves"] != "0" {
		add("persistence", replicator.OK, "aof_enabled is "+info["aof_enabled"]+", "+info["connected_slaves"]+" replicas", "")
	} else {
		add("persistence", replicator.Warn, "the server has no append-only file and no replica, and has saved no "+
			"snapshot since it was started: a restart would lose its data, and the views would have to be filled again",
			"CONFIG SET appendonly yes")
	}
}

// setNoEviction is the fix if the server may evict keys. Managed servers refuse CONFIG.
const setNoEviction = "CONFIG SET maxmemory-policy noeviction; where a provider refuses CONFIG, set it in the " +
	"provider's parameters, or keep the views in a Redis of their own"

func isFull(info map[string]string) bool {
	used, err := strconv.ParseInt(info["used_memory"], 10, 64)
	limit, err2 := strconv.ParseInt(info["maxmemory"], 10, 64)
	return err == nil && err2 == nil && used >= limit
}

// tooOld reports whether a version is before 6.2, which introduced SET … GET and HRANDFIELD.
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

// keep returns a keeper, which maintains the view. The error says what is wrong with the view's definition, or which
// permission is missing.
func (s *Sink) keep(ctx context.Context, v *replicator.View, index int, may permissions) (*keeper, error) {
	k, err := newKeeper(v, index)
	if err == nil {
		err = may.view(ctx, k).refusal()
	}
	if err != nil {
		return nil, fmt.Errorf("view %s: %w", v.Name, err)
	}
	return k, nil
}

// checkView adds a finding about a view: its definition is wrong, a permission is missing, another view's keys are in
// the way, or all is well.
func (s *Sink) checkView(ctx context.Context, v *replicator.View, index int, may permissions, found *report) {
	what := "view " + v.Name
	k, err := newKeeper(v, index)
	if err != nil {
		found.add(what, replicator.Fail, err.Error(), "correct kind or key in [views."+v.Name+"]")
		return
	}
	if d := may.view(ctx, k); d.level() != replicator.OK {
		found.add(what+": permissions", d.level(), d.detail(), d.fix())
		return
	}
	sources, err := s.Sources(ctx)
	for _, source := range sources {
		var known map[string]*viewMark
		if known, err = s.readMarks(ctx, source); err != nil {
			break
		}
		if m := known[v.Name]; m != nil {
			if mark, ok := m.whole(); ok && mark.Phase != replicator.PhaseFilling {
				continue
			}
		}
		if by := s.occupant(v, known); by != "" {
			detail, fix := occupied(by)
			found.add(what, replicator.Fail, detail, fix)
			return
		}
	}
	if err != nil {
		found.add(what, replicator.Fail, err.Error(), "correct what this error says, and run `replicator check` again")
		return
	}
	found.add(what, replicator.OK, "keys "+v.Key, "")
}
