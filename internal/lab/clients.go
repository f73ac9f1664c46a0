package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"replicator/internal/launch"
	"replicator/internal/servers"
)

// MySQL runs statements with a server's mysql client program, as root in one database.
type MySQL struct {
	Server   *servers.Server
	Database string
}

// Command prepares the client, which reads statements from its standard input.
func (m MySQL) Command(ctx context.Context) (*exec.Cmd, error) {
	client, err := servers.Program(m.Server.Kind, "mysql")
	if err != nil {
		return nil, err
	}
	args := []string{"--no-defaults", "--protocol=tcp", "--host=127.0.0.1",
		"--port=" + strconv.Itoa(m.Server.Port), "--user=root",
		"--default-character-set=utf8mb4", "--batch", "--skip-column-names"}
	if m.Database != "" {
		args = append(args, "--database="+m.Database)
	}
	return exec.CommandContext(ctx, client, args...), nil
}

// Exec runs statements with the server's client program, and fails the test at the first error.
func (m MySQL) Exec(t testing.TB, statements ...string) {
	t.Helper()
	if _, err := m.Rows(t.Context(), strings.Join(statements, ";\n")); err != nil {
		t.Fatal(err)
	}
}

// Rows returns the rows that a statement selects, as the client prints them. It returns NULL as the text "NULL".
func (m MySQL) Rows(ctx context.Context, query string) ([][]string, error) {
	cmd, err := m.Command(ctx)
	if err != nil {
		return nil, err
	}
	cmd.Stdin = strings.NewReader(query + ";\n")
	out, err := output(cmd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.TrimSpace(query[:min(len(query), 200)]), err)
	}
	unescape := strings.NewReplacer(`\\`, `\`, `\t`, "\t", `\n`, "\n", `\0`, "\x00")
	var rows [][]string
	for line := range strings.Lines(string(out)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i := range row {
			row[i] = unescape.Replace(row[i])
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Oldest returns the position at which the server's oldest binlog begins.
func (m MySQL) Oldest(t testing.TB) string {
	t.Helper()
	rows, err := m.Rows(t.Context(), "SHOW BINARY LOGS")
	if err != nil || len(rows) == 0 {
		t.Fatalf("SHOW BINARY LOGS: %v, %v", rows, err)
	}
	return rows[0][0] + ":4"
}

// Redis runs commands on a server with redis-cli.
type Redis struct{ Server *servers.Server }

// Do runs commands, which must not contain line breaks. It returns their replies: nil, string, json.Number, []any or
// map[string]any.
func (r Redis) Do(ctx context.Context, commands ...string) ([]any, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	client, err := servers.Program(r.Server.Kind, "redis-cli")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, client, "-h", "127.0.0.1", "-p", strconv.Itoa(r.Server.Port), "--json")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	out, err := output(cmd)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(out))
	d.UseNumber()
	replies := make([]any, 0, len(commands))
	for range commands {
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("redis-cli: reply %d of %d: %w: %s", len(replies)+1, len(commands), err,
				launch.LastLines(string(out), 3))
		}
		replies = append(replies, v)
	}
	return replies, nil
}

func output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out, fmt.Errorf("%s: %w: %s", cmd.Path, err, strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}

// Elastic sends requests to the Elasticsearch server at a URL.
type Elastic struct{ URL string }

// Documents returns the documents of an index or alias by id, without the program's own state in them. It returns no
// documents if the index does not exist.
func (e Elastic) Documents(ctx context.Context, index string) (map[string]map[string]any, error) {
	if _, err := e.do(ctx, http.MethodPost, "/"+index+"/_refresh?ignore_unavailable=true", ""); err != nil {
		return nil, err
	}
	documents := map[string]map[string]any{}
	after := ""
	for {
		page, err := e.do(ctx, http.MethodPost, "/"+index+"/_search?ignore_unavailable=true",
			`{"size": 1000, "sort": [{"_doc": "asc"}], "track_total_hits": false`+after+`}`)
		if err != nil {
			return nil, err
		}
		hits, _ := at(page, "hits", "hits").([]any)
		for _, h := range hits {
			id, _ := at(h, "_id").(string)
			source, ok := at(h, "_source").(map[string]any)
			if id == "" || !ok {
				return nil, fmt.Errorf("index %s: a hit without _id or _source", index)
			}
			// If a source filter of the search left out `_replicator`, the server would encode decimals as doubles.
			delete(source, "_replicator")
			documents[id] = source
			sort, err := json.Marshal(at(h, "sort"))
			if err != nil {
				return nil, err
			}
			after = `, "search_after": ` + string(sort)
		}
		if len(hits) < 1000 {
			return documents, nil
		}
	}
}

// Document returns one document by its id. It returns nil if the document does not exist.
func (e Elastic) Document(ctx context.Context, index, id string) (map[string]any, error) {
	found, err := e.do(ctx, http.MethodGet, "/"+index+"/_doc/"+id, "")
	if err != nil {
		return nil, err
	}
	source, _ := at(found, "_source").(map[string]any)
	return source, nil
}

// Source returns the JSON text of one document.
func (e Elastic) Source(ctx context.Context, index, id string) ([]byte, error) {
	return e.text(ctx, http.MethodGet, "/"+index+"/_source/"+id, "")
}

// Exec sends a request, and fails the test if the request fails. A missing index is not a failure.
func (e Elastic) Exec(t testing.TB, method, path, body string) {
	t.Helper()
	if _, err := e.do(t.Context(), method, path, body); err != nil {
		t.Fatal(err)
	}
}

// Count returns how many documents match a query in Lucene's syntax.
func (e Elastic) Count(ctx context.Context, index, query string) (int, error) {
	found, err := e.do(ctx, http.MethodGet, "/"+index+"/_count?q="+url.QueryEscape(query), "")
	if err != nil {
		return 0, err
	}
	count, _ := at(found, "count").(json.Number)
	return strconv.Atoi(count.String())
}

// Types returns the types of an index's fields, by field.
func (e Elastic) Types(ctx context.Context, index string) (map[string]string, error) {
	found, err := e.do(ctx, http.MethodGet, "/"+index+"/_mapping", "")
	types := map[string]string{}
	all, _ := found.(map[string]any)
	for _, one := range all {
		fields, _ := at(one, "mappings", "properties").(map[string]any)
		for name, field := range fields {
			types[name], _ = at(field, "type").(string)
		}
	}
	return types, err
}

// IsOpenSearch reports whether the server is OpenSearch, according to its answer to GET /. Elasticsearch's test
// distribution does not answer GET /.
func (e Elastic) IsOpenSearch(ctx context.Context) bool {
	text, err := e.text(ctx, http.MethodGet, "/", "")
	return err == nil && bytes.Contains(text, []byte(`"opensearch"`))
}

// Indexes returns the names of the indexes that match a pattern. It does not return aliases.
func (e Elastic) Indexes(ctx context.Context, pattern string) ([]string, error) {
	found, err := e.do(ctx, http.MethodGet, "/"+pattern+"?expand_wildcards=all&features=settings", "")
	m, _ := found.(map[string]any)
	return slices.Sorted(maps.Keys(m)), err
}

// do sends a request and decodes the answer, which is nil if the index is missing.
func (e Elastic) do(ctx context.Context, method, path, body string) (any, error) {
	text, err := e.text(ctx, method, path, body)
	if err != nil || text == nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err = d.Decode(&v)
	return v, err
}

// text sends a request and returns the answer. It returns nil if the index is missing.
func (e Elastic) text(ctx context.Context, method, path, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no idle connection outlives a test
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusNotFound:
		return nil, nil
	case res.StatusCode >= 300:
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	return text, nil
}

func at(v any, names ...string) any {
	for _, n := range names {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[n]
	}
	return v
}

// Keys returns the keys that match a pattern.
func (r Redis) Keys(ctx context.Context, pattern string) ([]string, error) {
	replies, err := r.Do(ctx, "KEYS "+pattern)
	if err != nil {
		return nil, err
	}
	list, _ := replies[0].([]any)
	keys := make([]string, len(list))
	for i, k := range list {
		keys[i], _ = k.(string)
	}
	return keys, nil
}

func (r Redis) each(ctx context.Context, command, pattern string, take func(key string, reply any) error) error {
	keys, err := r.Keys(ctx, pattern)
	if err != nil {
		return err
	}
	commands := make([]string, len(keys))
	for i, k := range keys {
		commands[i] = command + " " + strconv.Quote(k)
	}
	replies, err := r.Do(ctx, commands...)
	if err != nil {
		return err
	}
	for i, k := range keys {
		if err := take(k, replies[i]); err != nil {
			return fmt.Errorf("%s %s: %w", command, k, err)
		}
	}
	return nil
}

// Strings returns the values of the strings whose keys match a pattern, by key.
func (r Redis) Strings(ctx context.Context, pattern string) (Held, error) {
	held := Held{}
	return held, r.each(ctx, "GET", pattern, func(key string, reply any) error {
		text, ok := reply.(string)
		if !ok {
			return fmt.Errorf("the reply is %v", reply)
		}
		held[key] = text
		return nil
	})
}

// Sets returns the sets whose keys match a pattern. Each member has the key "KEY MEMBER" in the result.
func (r Redis) Sets(ctx context.Context, pattern string) (Held, error) {
	held := Held{}
	return held, r.each(ctx, "SMEMBERS", pattern, func(key string, reply any) error {
		members, ok := reply.([]any)
		if !ok {
			return fmt.Errorf("the reply is %v", reply)
		}
		for _, m := range members {
			held[fmt.Sprintf("%s %v", key, m)] = ""
		}
		return nil
	})
}

// Hashes returns the hashes whose keys match a pattern. Each field has the key "KEY FIELD" in the result.
func (r Redis) Hashes(ctx context.Context, pattern string) (Held, error) {
	held := Held{}
	return held, r.each(ctx, "HGETALL", pattern, func(key string, reply any) error {
		fields, ok := reply.(map[string]any)
		if !ok {
			return fmt.Errorf("the reply is %v", reply)
		}
		for name, v := range fields {
			held[key+" "+name] = fmt.Sprint(v)
		}
		return nil
	})
}

// Scores returns a sorted set's members and their scores.
func (r Redis) Scores(ctx context.Context, key string) (Held, error) {
	replies, err := r.Do(ctx, "ZRANGE "+strconv.Quote(key)+" 0 -1 WITHSCORES")
	if err != nil {
		return nil, err
	}
	held := Held{}
	list, _ := replies[0].([]any)
	for _, e := range list {
		pair, ok := e.([]any)
		if !ok || len(pair) != 2 {
			return nil, fmt.Errorf("ZRANGE %s WITHSCORES: %v", key, e)
		}
		held[fmt.Sprint(pair[0])] = strings.TrimSuffix(fmt.Sprint(pair[1]), ".0")
	}
	return held, nil
}
