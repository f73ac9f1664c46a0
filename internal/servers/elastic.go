package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Elasticsearch is in no Linux distribution. Elastic publishes a Maven artifact for the integration tests of plugin
// authors. It contains the normal launcher and the normal server with HTTP, so it needs Java on the machine. It lacks
// the modules for scripts and aggregations, and the request "GET /".
var (
	elastic8Artifact = elasticArtifact("8.19.8", "8d943e94cef02cbceb6e39cd00175bb04e5f882fa32783a473880b8691a54376")
	elastic9Artifact = elasticArtifact("9.5.3", "bec49f3b8d00e75c8d1cec85c35298635ec9fbd3ae80ef5aeb6bc05abdb3db2d")
)

// elasticArtifact returns the distribution of a release. The caller gives its sum, because the repository publishes no
// sums.
func elasticArtifact(version, sum string) mavenArtifact {
	return mavenArtifact{group: "org.elasticsearch.distribution.integ-test-zip", name: "elasticsearch",
		version: version, kind: "zip", sum: sum}
}

const elasticRemedy = "It needs Java (for Elasticsearch 8 release 17 or newer, for 9 release 21) and, once, Maven or " +
	"a machine with apt; " +
	"or set " + mavenVariable + " to the URL of a Maven repository, or " + cacheVariable +
	" to a cache that was filled elsewhere; " +
	"tests also use a running server if ELASTICSEARCH_URL names it"

const elasticWrapper = notRoot + `exec $n bash "$r/elasticsearch/bin/elasticsearch" "$@"
`

// notRoot begins the wrapper script of a server that refuses to run as root. If the user is root, $n runs a command as
// nobody, with one capability, so that the command can read the cache and write to the server's directory. Without
// no_setuid_fixup, Java would ignore the capability. --pdeathsig ties the process to its parent again, because a change
// of uid unties it.
const notRoot = `#!/bin/sh
r=$(dirname "$(dirname "$(readlink -f "$0")")")
n=
if [ "$(id -u)" = 0 ]; then
  keep=-all,+dac_override
  n="setpriv --reuid=65534 --regid=65534 --clear-groups --securebits=+no_setuid_fixup --no-new-privs --pdeathsig=KILL \
    --inh-caps=$keep --ambient-caps=$keep --bounding-set=$keep"
fi
`

func fetchElastic(ctx context.Context, in *installation, cache string, log *os.File, say func(string)) error {
	if _, err := javaHome(ctx, cache, in.spec, say); err != nil {
		return err
	}
	artifact, dir := in.spec.artifact, in.root
	say("fetching it from a Maven repository, 100 to 135 MB: this takes 10 to 60 seconds, once")
	zip, err := artifact.fetch(ctx, cache, dir, log, say)
	if err != nil {
		return err
	}
	if err := unzip(zip, "elasticsearch-"+artifact.version+"/", filepath.Join(dir, "elasticsearch")); err != nil {
		return err
	}
	err = errors.Join(os.Remove(zip), os.Mkdir(filepath.Join(dir, "bin"), 0o755),
		os.WriteFile(filepath.Join(dir, "bin", "elasticsearch"), []byte(elasticWrapper), 0o755),
		os.WriteFile(filepath.Join(dir, "version"), []byte(artifact.version+"\n"), 0o644))
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	return nil
}

func prepareElastic(ctx context.Context, s *Server) ([]string, error) {
	java, err := s.java(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.configureElastic(); err != nil {
		return nil, fmt.Errorf("servers: %s: configuration: %w", s.Kind, err)
	}
	s.opts.Progress(fmt.Sprintf("%s: starting, which takes 10 to 20 seconds", s.Kind))
	env := []string{"ES_JAVA_HOME=" + java, "ES_PATH_CONF=" + filepath.Join(s.Dir, "config"),
		"ES_TMPDIR=" + filepath.Join(s.Dir, "tmp"),
		"CLI_JAVA_OPTS=-XX:TieredStopAtLevel=1 -Xmx64m"}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "JAVA_HOME" && !strings.HasPrefix(name, "ES_") &&
			name != "CLI_JAVA_OPTS" {
			env = append(env, v)
		}
	}
	return env, nil
}

func (s *Server) configureElastic() error {
	home, config := filepath.Join(s.in.root, "elasticsearch"), filepath.Join(s.Dir, "config")
	options, err := os.ReadFile(filepath.Join(home, "config", "jvm.options"))
	if err != nil {
		return err
	}
	logging, err := os.ReadFile(filepath.Join(home, "config", "log4j2.properties"))
	if err != nil {
		return err
	}
	var jvm strings.Builder
	for line := range strings.Lines(string(options)) {
		// Leave out the options that make Java write needless files.
		if !strings.Contains(line, "Xlog") && !strings.Contains(line, "HeapDump") {
			jvm.WriteString(line)
		}
	}
	jvm.WriteString("\n-Xms256m\n-Xmx512m\n-XX:-AlwaysPreTouch\n")
	if s.opts.Small {
		// Use only the fast compiler: it halves the CPU time of a start and of a test's requests. A collector without
		// its own threads leaves more CPU time on a machine with few cores.
		jvm.WriteString("-XX:TieredStopAtLevel=1\n-XX:-UseG1GC\n-XX:+UseSerialGC\n")
	}
	yml := s.elasticSettings() + "xpack.security.enabled: false\n"
	return errors.Join(
		os.MkdirAll(config, 0o755), os.MkdirAll(filepath.Join(s.Dir, "logs"), 0o755),
		os.MkdirAll(filepath.Join(s.Dir, "tmp"), 0o755),
		os.WriteFile(filepath.Join(config, "jvm.options"), []byte(jvm.String()), 0o644),
		os.WriteFile(filepath.Join(config, "log4j2.properties"), logging, 0o644),
		os.WriteFile(filepath.Join(config, "elasticsearch.yml"), []byte(yml), 0o644))
}

func (s *Server) elasticSettings() string {
	return fmt.Sprintf(`cluster.name: test
node.name: test
path.data: %q
path.logs: %q
http.host: 127.0.0.1
http.port: %d
transport.host: 127.0.0.1
transport.port: 0
discovery.type: single-node
cluster.routing.allocation.disk.threshold_enabled: false
`, filepath.Join(s.Dir, "data"), filepath.Join(s.Dir, "logs"), s.Port)
}

func elasticArgs(_ *installation, s *Server) []string { return []string{"-p", s.elasticPIDFile()} }

func (s *Server) elasticPIDFile() string { return filepath.Join(s.Dir, "tmp", "pid") }

// elasticPID returns the id of the server's process. For Elasticsearch, the process that this package starts is only a
// launcher: if it is killed, the server shuts down cleanly. So a signal that simulates a crash must go to the server.
func elasticPID(s *Server) (int, error) {
	text, err := os.ReadFile(s.elasticPIDFile())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func elasticURL(addr, _ string) string { return "http://" + addr }

// pingElastic waits until every primary shard is started. It also checks the id of the process that answers, so that it
// does not accept a different server on the same port.
func pingElastic(ctx context.Context, s *Server) error {
	var health struct {
		TimedOut bool `json:"timed_out"`
	}
	if err := getJSON(ctx,
		elasticURL(s.Addr(), "")+"/_cluster/health?wait_for_status=yellow&timeout=2s", &health); err != nil {
		return err
	}
	if health.TimedOut {
		return errors.New("the server is still reading its data")
	}
	var nodes struct {
		Nodes map[string]struct {
			Process struct {
				ID int `json:"id"`
			} `json:"process"`
		} `json:"nodes"`
	}
	if err := getJSON(ctx,
		elasticURL(s.Addr(), "")+"/_nodes/_local/process?filter_path=nodes.*.process.id", &nodes); err != nil {
		return err
	}
	pid, err := elasticPID(s)
	if err != nil {
		return err
	}
	for _, n := range nodes.Nodes {
		if n.Process.ID == pid {
			return nil
		}
	}
	return fmt.Errorf("another server answers on port %d", s.Port)
}

func getJSON(ctx context.Context, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// Keep-alive is off, so no idle connection outlives the ping.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s", res.Status)
	}
	return json.Unmarshal(body, into)
}
