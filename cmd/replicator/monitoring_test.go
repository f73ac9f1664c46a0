package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"replicator/internal/child"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// promtool runs promtool with the given input, in the directory of the rules.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	cmd, err := servers.Prometheus(t.Context(), "promtool", args...)
	if err != nil {
		servertest.Unavailable(t, err)
	}
	cmd.Dir, cmd.Stdin = "../../deploy/prometheus", strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "rules", "alerts.yml")
	promtool(t, "", "test", "rules", "alerts_test.yml")
}

// dashboard has the parts of Grafana's JSON model that the tests need.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// A real Prometheus scrapes the program. All queries of the dashboard and the alerts must then find data.
func TestDashboardAndAlertsFindData(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.program = built // no need for the race detector here
	prometheus := startPrometheus(t, l.listen)
	l.running()
	promtool(t, metricsText(l), "check", "metrics")
	l.put("a", 1, `{"email": "a@x.org", "phone": 4155550100}`)
	l.caughtUp()
	eventually(t, func() error { // a rate needs two scrapes
		n, err := samples(prometheus, "min(count_over_time(replicator_changes_applied_total[1m])) > 2")
		return as(err == nil && n > 0, fmt.Sprint("not scraped twice: ", err))
	})

	shown := readDashboard(t)
	find := func(where, query string) {
		if n, err := samples(prometheus, ofAll.Replace(query)); err != nil || n == 0 {
			t.Errorf("%s: %s gives %d samples: %v", where, query, n, err)
		}
	}
	asked := 0
	for _, p := range shown.Panels {
		for _, target := range p.Targets {
			find("panel "+p.Title, target.Expr)
			asked++
		}
	}
	if asked < 20 {
		t.Errorf("the dashboard has %d queries", asked)
	}
	variable := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	for _, v := range shown.Templating.List {
		if m := variable.FindStringSubmatch(v.Definition); m != nil {
			find("variable "+v.Name, fmt.Sprintf("count by (%s) (%s)", m[2], m[1]))
		} else if v.Type == "query" {
			t.Errorf("variable %s: %s", v.Name, v.Definition)
		}
	}
	rules, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`replicator_\w+`).FindAllString(string(rules), -1)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		find("alerts", name)
	}
}

// Monitoring may be set up before any view is. No alert must fire, and no query must fail.
func TestDashboardAndAlertsOfAProgramWithoutViews(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.program = built // no need for the race detector here
	l.configure(source, program, mainSink)
	l.must("run", "--until-caught-up")
	prometheus := startPrometheus(t, l.listen)
	l.running()
	promtool(t, metricsText(l), "check", "metrics")
	eventually(t, func() error {
		n, err := samples(prometheus, "replicator_build_info")
		return as(err == nil && n > 0, fmt.Sprint("not scraped: ", err))
	})
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			if _, err := samples(prometheus, ofAll.Replace(target.Expr)); err != nil {
				t.Errorf("panel %s: %s: %v", p.Title, target.Expr, err)
			}
		}
	}
	eventually(t, func() error { return quiet(prometheus) })
}

// quiet returns nil once all alerts were evaluated and none of them is pending or firing.
func quiet(prometheus string) error {
	r, err := http.Get("http://" + prometheus + "/api/v1/rules")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, State, Health, LastError string }
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return err
	}
	rules := 0
	for _, g := range answer.Data.Groups {
		for _, rule := range g.Rules {
			if rules++; rule.State != "inactive" || rule.Health != "ok" {
				return fmt.Errorf("alert %s is %s, %s: %s", rule.Name, rule.State, rule.Health, rule.LastError)
			}
		}
	}
	return as(rules > 0, "there are no rules")
}

// ofAll replaces the dashboard's variables by values that match everything.
var ofAll = strings.NewReplacer("$__rate_interval", "1m", "$job", ".+", "$instance", ".+", "$view", ".+")

func readDashboard(t *testing.T) (shown dashboard) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/replicator.json")
	if err == nil {
		err = json.Unmarshal(text, &shown)
	}
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

func metricsText(l *lab) string { _, text := l.get("/metrics"); return text }

// startPrometheus starts a Prometheus that scrapes an address several times a second. It returns the address of that
// Prometheus.
func startPrometheus(t *testing.T, target string) string {
	t.Helper()
	dir, address := t.TempDir(), servertest.FreeAddress(t)
	rules, err := filepath.Abs("../../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: replicator, static_configs: [{targets: [%q]}]}]\n", rules, target)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, err := servers.Prometheus(t.Context(), "prometheus", "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	if err != nil {
		servertest.Unavailable(t, err)
	}
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	running, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-running.Done()
		if t.Failed() {
			t.Logf("Prometheus:\n%s", log.String())
		}
	})
	return address
}

// samples returns the number of samples that a query finds now.
func samples(prometheus, query string) (int, error) {
	r, err := http.Get("http://" + prometheus + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Error != "" {
		return 0, fmt.Errorf("%s", answer.Error)
	}
	return len(answer.Data.Result), nil
}
