package friendfeed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"replicator/internal/lab"
	"replicator/internal/launch"
)

// Verify compares every index table of every shard with the result of expected.py, which the given python runs on the
// entities. No other client may write to the entities while Verify runs.
func Verify(ctx context.Context, python string, source lab.MySQL,
	shards []lab.MySQL) (held int, differences []string, err error) {
	want, err := expected(ctx, python, source, len(shards))
	if err != nil {
		return 0, nil, err
	}
	for n, shard := range shards {
		for table, values := range map[string]string{
			"index_user_id":        "LOWER(HEX(user_id))",
			"index_link":           "LOWER(HEX(CONVERT(link USING utf8mb4)))",
			"index_user_published": "LOWER(HEX(user_id)), published",
			"index_tag":            "LOWER(HEX(tag))",
		} {
			rows, err := shard.Rows(ctx, "SELECT "+values+", LOWER(HEX(entity_id)) FROM "+table)
			if err != nil {
				return 0, nil, err
			}
			held += len(rows)
			place := fmt.Sprintf("%s of shard %d", table, n)
			differences = append(differences, lab.Differences(place, want[place], lab.Lines(rows))...)
		}
	}
	return held, differences, nil
}

// expected returns what each table should contain, by "TABLE of shard N".
func expected(ctx context.Context, python string, source lab.MySQL, shards int) (map[string]lab.Held, error) {
	entities, err := source.Rows(ctx, "SELECT HEX(id), HEX(body) FROM entities")
	if err != nil {
		return nil, err
	}
	var in strings.Builder
	for _, e := range entities {
		fmt.Fprintln(&in, strings.Join(e, "\t"))
	}
	cmd := exec.CommandContext(ctx, python, "expected.py", strconv.Itoa(shards))
	cmd.Stdin = strings.NewReader(in.String())
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("expected.py: %w", err), errors.New(launch.LastLines(complaint.String(), 5)))
	}
	rows := map[string][][]string{}
	for line := range strings.Lines(string(out)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		place := parts[0] + " of shard " + parts[1]
		rows[place] = append(rows[place], parts[2:])
	}
	want := map[string]lab.Held{}
	for place, r := range rows {
		want[place] = lab.Lines(r)
	}
	return want, nil
}
