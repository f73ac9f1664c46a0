package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// Check looks at what the views need of the server: its version, its memory and disk settings, permissions, and the
// views' definitions.
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
		findings = append(findings, s.checkNode(ctx, n, name)...)
	}
	may := s.asksPermissions(ctx)
	findings = append(findings, may.own(ctx).findings(what("permissions"))...)
	for i, v := range views {
		findings = append(findings, s.checkView(ctx, v, i, may)...)
	}
	return findings
}

func (s *Sink) checkNode(ctx context.Context, node redis.Cmdable, name func(string) string) []replicator.Finding {
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

// keep makes a keeper of a view, or says why it can't be kept.
func (s *Sink) keep(ctx context.Context, v *replicator.View, place int, may permissions) (*keeper, error) {
	k, err := newKeeper(v, place)
	if err == nil {
		err = may.view(ctx, k).refusal()
	}
	if err != nil {
		return nil, fmt.Errorf("view %s: %w", v.Name, err)
	}
	return k, nil
}

// checkView finds why a view can't be kept, or perhaps can't.
func (s *Sink) checkView(ctx context.Context, v *replicator.View, place int, may permissions) []replicator.Finding {
	what := "view " + v.Name
	k, err := newKeeper(v, place)
	if err != nil {
		return []replicator.Finding{{What: what, Level: replicator.Fail, Detail: err.Error(), Fix: "correct the view's definition"}}
	}
	if found := may.view(ctx, k).findings(what + ": permissions"); len(found) > 0 && found[0].Level != replicator.OK {
		return found
	}
	return []replicator.Finding{{What: what, Level: replicator.OK, Detail: "keys " + v.Key}}
}
