package elastic

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
)

// Check checks whether the cluster has what the views need. It changes nothing.
func (s *Sink) Check(ctx context.Context, views []*replicator.View) []replicator.Finding {
	what := "sink " + s.name
	version, err := s.version(ctx)
	if err != nil {
		return []replicator.Finding{failed(what, err, entering(err))}
	}
	product, tested, fix := s.client.product()
	findings := []replicator.Finding{{What: what, Level: replicator.OK, Detail: product + " " + version}}
	if major, _, _ := strings.Cut(version, "."); !slices.Contains(tested, major) {
		findings[0].Level, findings[0].Fix = replicator.Warn, fix
	}
	findings = append(append(findings, s.health(ctx)), s.privileges(ctx, views)...)
	for _, v := range views {
		findings = append(findings, s.checkView(ctx, v)...)
	}
	return findings
}

func failed(what string, err error, fix string) replicator.Finding {
	return replicator.Finding{What: what, Level: replicator.Fail, Detail: err.Error(), Fix: replicator.FixFor(err, fix)}
}

// entering returns advice for the error of the sink's first request.
func entering(err error) string {
	var unproven *tls.CertificateVerificationError
	switch {
	case errors.As(err, &unproven):
		return "correct ca_cert or server_name, because the server's certificate does not match them"
	case hasStatus(err, http.StatusUnauthorized):
		return "correct username and password, or api_key"
	case hasStatus(err, http.StatusForbidden):
		return "grant the cluster privilege monitor"
	}
	return "start Elasticsearch or OpenSearch, or check addresses"
}

// version asks a node for its version. A server that doesn't answer GET / (a distribution for tests) is asked in
// another way.
func (s *Sink) version(ctx context.Context) (string, error) {
	var said info
	err := s.client.call(ctx, esapi.InfoRequest{}, &said)
	if err == nil {
		return said.Version.Number, nil
	}
	if !hasStatus(err, http.StatusMethodNotAllowed, http.StatusBadRequest) {
		return "", err
	}
	var nodes struct {
		Nodes map[string]struct {
			Version string `json:"version"`
		} `json:"nodes"`
	}
	local := esapi.NodesInfoRequest{NodeID: []string{"_local"}, FilterPath: []string{"nodes.*.version"}}
	if err := s.client.call(ctx, local, &nodes); err != nil {
		return "", err
	}
	for _, n := range nodes.Nodes {
		return n.Version, nil
	}
	return "", errors.New("no node reports its version")
}

func (s *Sink) health(ctx context.Context) replicator.Finding {
	var health struct {
		Status string `json:"status"`
		Shards int    `json:"unassigned_shards"`
	}
	f := replicator.Finding{What: "sink " + s.name + ": cluster health", Level: replicator.OK}
	if err := s.client.call(ctx, esapi.ClusterHealthRequest{}, &health); err != nil {
		return failed(f.What, err, "grant the cluster privilege monitor")
	}
	f.Detail = fmt.Sprintf("%s, %d shards unassigned", health.Status, health.Shards)
	if health.Status == "red" {
		f.Level = replicator.Warn
		f.Fix = "primary shards are missing, and writes to them wait until they are back. See GET " +
			"_cluster/allocation/explain"
	}
	return f
}

// privileges checks the user's privileges on the views' indexes. A cluster without security answers the request with an
// error.
func (s *Sink) privileges(ctx context.Context, views []*replicator.View) []replicator.Finding {
	f := replicator.Finding{What: "sink " + s.name + ": privileges", Level: replicator.OK}
	var names []string
	for _, v := range views {
		alias := settingsOf(v).Index
		names = append(names, alias, alias+"-r1")
	}
	if len(names) == 0 {
		f.Detail = "no views"
		return []replicator.Finding{f}
	}
	if s.client.openSearch.Load() {
		f.Detail = "OpenSearch has no request for a user's privileges"
		return []replicator.Finding{f}
	}
	onIndexes := object{"names": names, "privileges": []string{"manage", "read", "write"}}
	wanted := object{"cluster": []string{"monitor"}, "index": []any{onIndexes}}
	var answer struct {
		All     bool                       `json:"has_all_requested"`
		Cluster map[string]bool            `json:"cluster"`
		Index   map[string]map[string]bool `json:"index"`
	}
	err := s.client.call(ctx, esapi.SecurityHasPrivilegesRequest{Body: body(wanted)}, &answer)
	switch {
	case hasStatus(err, http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotFound,
		http.StatusInternalServerError):
		f.Detail = "the cluster has no security turned on"
		return []replicator.Finding{f}
	case err != nil:
		return []replicator.Finding{failed(f.What, err, "check the sink's username or api_key")}
	case answer.All:
		f.Detail = "manage, read and write on the views' indexes"
		return []replicator.Finding{f}
	}
	var findings []replicator.Finding
	for _, v := range views {
		alias := settingsOf(v).Index
		for _, index := range []string{alias, alias + "-r1"} {
			if lacks := without(answer.Index[index]); len(lacks) > 0 {
				findings = append(findings, replicator.Finding{What: "view " + v.Name + ": privileges", Level: replicator.Fail,
					Detail: fmt.Sprintf("the sink's user lacks the privileges %s on %s", strings.Join(lacks, ", "), index),
					Fix:    fmt.Sprintf("grant the index privileges manage, read and write on %s and %s-r*", alias, alias)})
			}
		}
	}
	if len(findings) == 0 || !answer.Cluster["monitor"] {
		all := errors.New("the sink's user lacks privileges")
		findings = append(findings, failed(f.What, all, "grant the cluster privilege monitor"))
	}
	return findings
}

func without(has map[string]bool) (lacks []string) {
	for name, there := range has {
		if !there {
			lacks = append(lacks, name)
		}
	}
	slices.Sort(lacks)
	return lacks
}

func (s *Sink) checkView(ctx context.Context, v *replicator.View) []replicator.Finding {
	f := replicator.Finding{What: "view " + v.Name + ": index", Level: replicator.OK}
	alias := settingsOf(v).Index
	if _, err := s.keep(v, ""); err != nil {
		return []replicator.Finding{failed(f.What, err, "correct the view's kind, index or fields, as this error says")}
	}
	found, err := s.behind(ctx, alias)
	if err != nil {
		return []replicator.Finding{failed(f.What, err, "")}
	}
	all, err := s.generations(ctx, alias)
	if err != nil {
		return []replicator.Finding{failed(f.What, err, "")}
	}
	next, err := s.nextNumber(ctx, alias)
	if err != nil {
		return []replicator.Finding{failed(f.What, err, "")}
	}
	if !slices.ContainsFunc(all, func(g *generation) bool { return g.belongs(v) }) {
		if _, err := s.design(ctx, v, &generation{index: fmt.Sprintf("%s-r%d", alias, next)}); err != nil {
			return []replicator.Finding{failed(f.What, err, "correct the view's fields, or its mapping_file and settings_file")}
		}
	}
	if len(all) == 0 {
		f.Detail = fmt.Sprintf("the alias %s and the index %s-r%d will be created", alias, alias, next)
		return []replicator.Finding{f}
	}
	var findings []replicator.Finding
	if wrong := amiss(alias, found); wrong != "" {
		findings = append(findings, replicator.Finding{What: "view " + v.Name + ": alias", Level: replicator.Warn,
			Detail: fmt.Sprintf("the alias %s shows documents that it should hide, such as deleted cells and %s: %s",
				alias, registryID, wrong),
			Fix: "make sure that no script or template changes the alias. The program corrects the alias when it " +
				"starts, and within about ten seconds while it runs"})
	}
	for _, g := range all {
		one := replicator.Finding{What: f.What, Level: replicator.OK}
		one.Detail = fmt.Sprintf("%s is being filled, and then takes over the alias %s", g.index, alias)
		if g.shown {
			one.Detail = fmt.Sprintf("the alias %s leads to index %s", alias, g.index)
		}
		findings = append(findings, one)
		if blocks := s.blocks(ctx, g.index); len(blocks) > 0 {
			findings = append(findings, replicator.Finding{What: "view " + v.Name + ": blocks", Level: replicator.Fail,
				Detail: fmt.Sprintf("index %s is blocked by %s", g.index, strings.Join(blocks, ", ")), Fix: unblocking(g.index, blocks)})
		}
	}
	return findings
}

// unblocking returns the requests that remove blocks from an index, one after another. Blocks that protect settings
// come first, because OpenSearch requires that order.
func unblocking(index string, blocks []string) string {
	var last, requests []string
	for _, b := range blocks {
		request := fmt.Sprintf("PUT %s/_settings {\"index.%s\":null}", index, b)
		if b == "blocks.read" || b == "blocks.write" {
			last = append(last, request)
		} else {
			requests = append(requests, request)
		}
	}
	text := strings.Join(append(requests, last...), ", then ")
	if slices.Contains(blocks, "blocks.read_only_allow_delete") {
		text = "free disk space if the disk is full, then " + text
	}
	return text
}

func (s *Sink) blocks(ctx context.Context, index string) []string {
	var found map[string]struct {
		Settings map[string]json.RawMessage `json:"settings"`
	}
	flat := true
	request := esapi.IndicesGetSettingsRequest{
		Index: []string{index}, Name: []string{"index.blocks.*"}, FlatSettings: &flat}
	if err := s.client.call(ctx, request, &found); err != nil {
		return nil // later checks report the error
	}
	var blocks []string
	for _, i := range found {
		for name, value := range i.Settings {
			if strings.Trim(string(value), `"`) == "true" {
				blocks = append(blocks, strings.TrimPrefix(name, "index."))
			}
		}
	}
	slices.Sort(blocks)
	return blocks
}
