package elastic

import (
	"fmt"

	"strings"
	"testing"

	"replicator"
)

// The advice about a block depends on its cause: a full disk, an operator, or a missing master. A block of the whole
// cluster concerns all views.
func TestABlockSaysWhoseItIs(t *testing.T) {
	const master = "no master, or has only just started"
	for _, c := range []struct {
		status     int
		reason     string
		says, lone string // lone: a text that the error must not contain
		ofCluster  bool
	}{
		{429, "index [v-r1] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has " +
			"read-only-allow-delete block, see https://www.elastic.co/];", "disk is nearly full", "master", false},
		{403, "index [v-r1] blocked by: [FORBIDDEN/12/index read-only / allow delete (api)];", "disk is nearly full",
			"master", false},
		{403, "index [v-r1] blocked by: [FORBIDDEN/8/index write (api)];",
			"PUT /v-r1/_settings {\"index.blocks.write\": null}", "disk", false},
		{403, "blocked by: [FORBIDDEN/6/cluster read-only (api)];", `"cluster.blocks.read_only": null`, "disk", true},
		{403, "blocked by: [FORBIDDEN/13/cluster read-only / allow delete (api)];",
			`"cluster.blocks.read_only_allow_delete": null`, "disk", true},
		{503, "blocked by: [SERVICE_UNAVAILABLE/2/no master];", master, "disk", true},
		{503, "blocked by: [SERVICE_UNAVAILABLE/2/no cluster-manager];", master, "disk", true}, // OpenSearch
		{503, "blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];", master, "disk", true},
		{503, "blocked by: [SERVICE_UNAVAILABLE/99/something new];", "GET _cluster/settings", "disk", true},
	} {
		answer := fmt.Sprintf(`{"error": {"type": "cluster_block_exception", "reason": %q}}`, c.reason)
		err := refused(c.status, []byte(answer))
		if replicator.IsFatal(err) || !strings.Contains(err.Error(), c.says) || strings.Contains(
			strings.Replace(err.Error(), c.reason, "", 1), c.lone) {
			t.Errorf("%s: it says %v", c.reason, err)
		}
		if own := replicator.IsOfViews(inView(&replicator.View{Name: "v"}, err)); own == c.ofCluster {
			t.Errorf("%s: it is the view's own: %v", c.reason, own)
		}
	}
}
