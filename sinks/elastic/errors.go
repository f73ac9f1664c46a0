package elastic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"replicator"
)

// failure is what Elasticsearch says of a request, or of an item of one, that did not succeed.
type failure struct {
	Status int `json:"-"`
	reason
}

type reason struct {
	Type   string  `json:"type"`
	Reason string  `json:"reason"`
	Index  string  `json:"index"` // that it is about; "" if it is about none
	Cause  *reason `json:"caused_by"`
}

// Error says what is wrong, without values of the document: Elasticsearch's reasons quote them.
func (f *failure) Error() string {
	text := fmt.Sprintf("the cluster answers %d %s", f.Status, cmp.Or(f.Type, http.StatusText(f.Status)))
	for _, say := range []func(typ, text string) string{specific, harmless} { // what lies deeper may say more
		for r := &f.reason; r != nil; r = r.Cause {
			if safe := say(r.Type, r.Reason); safe != "" {
				return text + ": " + safe
			}
		}
	}
	return text
}

// deepest is the whole text of the innermost reason. It may be shown where no document was sent.
func (f *failure) deepest() string {
	r := &f.reason
	for r.Cause != nil && r.Cause.Reason != "" {
		r = r.Cause
	}
	return ofSimulation.ReplaceAllString(r.Reason, "")
}

// ofSimulation names a template that exists only while the cluster is asked what it would make of an index.
var ofSimulation = regexp.MustCompile(`(?:index_template|composable template) \[simulate_template_[^\]]*\](?: invalid, cause)? ?`)

// field is the field that a document was refused for; "" if the reason names none.
func (f *failure) field() string {
	for r := &f.reason; r != nil; r = r.Cause {
		for _, form := range []*regexp.Regexp{ofField, ofStrict, ofImmense, ofMixed, ofMapper} {
			if m := form.FindStringSubmatch(r.Reason); m != nil {
				return m[1]
			}
		}
	}
	return ""
}

// What a reason says of the mapping, apart from what it says of the value.
var (
	ofField   = regexp.MustCompile(`(?:field|mapping for) \[([^\]]*)\](?: of type \[([^\]]*)\])?`)
	ofStrict  = regexp.MustCompile(`dynamic introduction of \[([^\]]*)\]`)
	ofImmense = regexp.MustCompile(`immense term in field="([^"]*)"`)
	ofMixed   = regexp.MustCompile(`can't merge a non object mapping \[([^\]]*)\]`)
	ofMapper  = regexp.MustCompile(`^mapper \[([^\]]*)\] cannot be changed from type \[[^\]]*\] to \[[^\]]*\]$`)
	ofName    = regexp.MustCompile(`(?i)field name cannot (be an empty string|contain only)`)
	ofLimit   = regexp.MustCompile(`Limit of ([a-z ]+) \[\d+\] has been exceeded`)
	ofIndex   = regexp.MustCompile(`no such index \[[^\]]*\]|(?:index|alias) \[[^\]]*\][^\[\]:]*(?:blocked|exists|closed)`)
)

// ofPipeline is what an index says whose settings name a pipeline that there is not.
var ofPipeline = regexp.MustCompile(`^pipeline with id \[[^\]]*\] does not exist$`)

// asItIs is what to do about a value that Elasticsearch can hold, but not index by its members.
const asItIs = `map the field as "flattened" (OpenSearch: "flat_object"), or as "object" with "enabled": false`

// aboutServer are types of errors whose reasons speak of the cluster, never of a document.
var aboutServer = regexp.MustCompile(`^(cluster_block|security|index_not_found|resource_already_exists|` +
	`invalid_index_name|unavailable_shards|master_not_discovered|process_cluster_event_timeout|` +
	`circuit_breaking|no_shard_available_action|invalid_alias_name|cluster_manager|validation|settings|` +
	`mapper_parsing_in_mapping)_?`)

// ofRequest is the request that could not be made, which is shown with the document: index {[INDEX][ID], source[…]}.
var ofRequest = regexp.MustCompile(`(?s)\.? *Timeout: \[.*`)

// specific says what is wrong, where the reason has one of the forms that tell it best.
func specific(typ, text string) string {
	if typ == "routing_missing_exception" {
		return "the index demands a routing of each document (_routing.required): give the view one"
	}
	if m := ofStrict.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("the mapping is strict and has no field [%s]", m[1])
	}
	if m := ofImmense.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("the value of field [%s] is longer than 32766 bytes, which no term may be: "+
			"set ignore_above, or map it as text", m[1])
	}
	if m := ofMixed.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("field [%s] holds objects and other values, for which there is no mapping; %s", m[1], asItIs)
	}
	if ofMapper.MatchString(text) || ofPipeline.MatchString(text) { // they name fields, types, pipelines, and no value
		return text
	}
	if ofName.MatchString(text) {
		return "a member's name is empty, or an empty part of it stands beside a dot, for which there is no mapping; " +
			asItIs
	}
	if m := ofLimit.FindStringSubmatch(text); m != nil {
		if setting := limits[m[1]]; setting != "" {
			return m[0] + ": set " + setting + " in a settings_file, or leave out members that need no search by `fields`"
		}
		return m[0]
	}
	return ""
}

// limits are the settings of the limits of mappings, as reasons name them.
var limits = map[string]string{
	"total fields":  "index.mapping.total_fields.limit",
	"mapping depth": "index.mapping.depth.limit",
	"nested fields": "index.mapping.nested_fields.limit",
}

// harmless is what may be shown of a reason.
func harmless(typ, text string) string {
	if strings.HasSuffix(typ, rejected) {
		return full(text)
	}
	if aboutServer.MatchString(typ) {
		return ofRequest.ReplaceAllString(text, "")
	}
	if m := ofField.FindStringSubmatch(text); m != nil {
		if m[2] != "" {
			return fmt.Sprintf("the value does not fit field [%s] of type [%s]", m[1], m[2])
		}
		return fmt.Sprintf("the value does not fit field [%s]", m[1])
	}
	return ofIndex.FindString(text)
}

const rejected = "rejected_execution_exception" // Elasticsearch's begins with es_

var (
	ofQueue    = regexp.MustCompile(`\[name = ([^,\]]+), queue capacity = (\d+)`)
	ofPressure = regexp.MustCompile(`operation_bytes=(\d+), max_\w+=(\d+)`) // what a request took, what all may take
)

// full is what has no room for a request, or an item of one. What else the reason holds is Java's: the task, which may
// show the document.
func full(text string) string {
	if m := ofQueue.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("the thread pool %s takes no more (queue capacity %s)", m[1], m[2])
	}
	if m := ofPressure.FindString(text); m != "" {
		return "the memory for writes, indexing_pressure.memory.limit, has no room (" + m + ")"
	}
	return ""
}

// refused is the error of an answer that is no success.
func refused(status int, answer []byte) error {
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	f := &failure{}
	if json.Unmarshal(answer, &body) == nil && len(body.Error) > 0 && body.Error[0] == '{' {
		_ = json.Unmarshal(body.Error, f) // what it doesn't say stays empty
	}
	f.Status = status
	return f.classify()
}

// classify makes the failure Fatal if somebody must act, and says what to do.
func (f *failure) classify() error {
	switch {
	case f.isClosed():
		return replicator.Fatal(fmt.Errorf("%w; the index is closed: open it with `POST /%s/_open`, or rebuild the "+
			"view", f, cmp.Or(f.Index, "INDEX")))
	case f.lacksPipeline():
		return replicator.Fatal(fmt.Errorf("%w; the index's settings name it, by settings_file or a template: "+
			"make it, or set index.default_pipeline and index.final_pipeline to \"_none\"", f))
	case isSuccess(f.Status):
		return replicator.Fatal(fmt.Errorf("%w, and wrote nothing: a pipeline of the index (index.default_pipeline or "+
			"index.final_pipeline) dropped the document: set both to \"_none\"", f))
	case f.lacksShards():
		return fmt.Errorf("%w; copies of the index's shard are missing: `GET _cluster/allocation/explain` says why, "+
			"and index.write.wait_for_active_shards how many it wants", f)
	case f.isBlock():
		return fmt.Errorf("%w; %s", f, f.unblocking())
	case f.Status == http.StatusUnauthorized:
		return replicator.Fatal(fmt.Errorf("%w; check the sink's username and password, or api_key", f))
	case f.Status == http.StatusForbidden:
		return replicator.Fatal(fmt.Errorf("%w; the sink's user needs the index privileges manage, read and write on the "+
			"views' indexes, INDEX and INDEX-r*, and the cluster privilege monitor", f))
	}
	return f
}

// Blocks that were set by a request, and not by Elasticsearch: on an index, and on all that the cluster has.
var (
	ofBlock = regexp.MustCompile(
		`index \[([^\]]*)\] blocked by: \[[A-Z_]+/\d+/index (metadata|read-only|read|write) \(api\)`)
	ofClusterBlock = regexp.MustCompile(`^blocked by: \[[A-Z_]+/\d+/cluster (read-only(?: / allow delete)?) \(api\)`)
)

// unblocking is what to do about a block.
func (f *failure) unblocking() string {
	setting := strings.NewReplacer(" / ", "_", "-", "_", " ", "_")
	if m := ofBlock.FindStringSubmatch(f.Reason); m != nil {
		return fmt.Sprintf("the index is blocked: `PUT /%s/_settings {\"index.blocks.%s\": null}` ends that",
			m[1], setting.Replace(m[2]))
	}
	if m := ofClusterBlock.FindStringSubmatch(f.Reason); m != nil {
		none := fmt.Sprintf("{\"cluster.blocks.%s\": null}", setting.Replace(m[1]))
		return fmt.Sprintf("the whole cluster is blocked: "+
			"`PUT /_cluster/settings {\"persistent\": %s, \"transient\": %[1]s}` ends that", none)
	}
	switch {
	case strings.Contains(f.Reason, "flood-stage"), strings.Contains(f.Reason, "index read-only / allow delete"):
		return "usually the disk is nearly full (flood stage): free some, or see the index's blocks"
	case strings.Contains(f.Reason, "/no master"), strings.Contains(f.Reason, "/no cluster-manager"),
		strings.Contains(f.Reason, "state not recovered"):
		return "the cluster has no master, or has only just begun: see its nodes' logs if that stays so"
	}
	return "see `GET _cluster/settings` and the index's blocks"
}

func (f *failure) isBlock() bool { return f.Type == "cluster_block_exception" }

// isTemporary reports whether an item may succeed if it is sent again soon. For the copies that an index lacks
// Elasticsearch has waited by itself, and a block stays until somebody takes it away, or the disk has room.
func (f *failure) isTemporary() bool {
	return (f.Status == http.StatusTooManyRequests || f.Status >= 500) && !f.isBlock() && !f.lacksShards()
}

// lacksShards reports whether an index has too few copies of a shard to be written.
func (f *failure) lacksShards() bool { return f.Type == "unavailable_shards_exception" }

// ofNodes are types of errors that pass: of a node that is busy, or does not answer.
var ofNodes = regexp.MustCompile(
	`rejected_execution|circuit_breaking|time(d_)?out|node|connect|transport|shard|master|cluster_manager|task_cancelled`)

// statusOfType is the status that an error of that type has where a whole request ends by it.
func (f *failure) statusOfType() int {
	switch {
	case ofNodes.MatchString(f.Type):
		return http.StatusServiceUnavailable
	case f.isBlock(), strings.HasPrefix(f.Type, "security"):
		return http.StatusForbidden
	}
	return http.StatusBadRequest
}

func isSuccess(status int) bool { return status >= 200 && status < 300 }

// isClosed reports whether somebody closed the index.
func (f *failure) isClosed() bool { return f.Type == "index_closed_exception" }

// lacksPipeline reports whether the index sends documents through a pipeline that there is not.
func (f *failure) lacksPipeline() bool { return ofPipeline.MatchString(f.Reason) }

// isGone reports whether what was written to is no longer there: its alias, or the index.
func (f *failure) isGone() bool {
	return f.Type == "index_not_found_exception" || f.Type == "alias_not_found_exception"
}

// inView says which view an error is about, and that it is the view's own: see ofView.
func inView(v *replicator.View, err error) error {
	if err == nil {
		return nil
	}
	return ofView(v, fmt.Errorf("view %s: %w", v.Name, err))
}

// existsAlready reports whether an index could not be created because there is one of that name.
func existsAlready(err error) bool {
	f := asFailure(err)
	return f != nil && f.Type == "resource_already_exists_exception"
}

// ofView says that an error is the view's own, where it is about the view's index or definition and not about the whole
// cluster.
func ofView(v *replicator.View, err error) error {
	f := asFailure(err)
	own := replicator.IsFatal(err)
	if f != nil {
		own = !f.ofCluster()
	}
	if !own || errors.Is(err, replicator.ErrSinkLost) {
		return err
	}
	return replicator.OfView(err, v.Name)
}

// ofCluster reports whether the cluster fails by it, whatever is asked for: nobody may log in, a node is busy, there is
// no master, somebody blocked all of it. What an index lacks is a shard. A block on an index, whose reason names it,
// has the status of its kind: 429 is that of the blocks that Elasticsearch sets where a disk is full.
func (f *failure) ofCluster() bool {
	switch {
	case f.lacksShards(), f.Type == "no_shard_available_action_exception":
		return false
	case f.isBlock():
		return !strings.HasPrefix(f.Reason, "index [")
	}
	return f.Status == http.StatusUnauthorized || f.Status == http.StatusTooManyRequests || f.Status >= 500
}

// unreachable is the error of a request without an answer. The URL that Go's error shows holds no secret: users stand
// in headers.
func unreachable(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("the cluster can't be reached: %w", err)
}

func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return nil
}

func hasStatus(err error, any ...int) bool {
	f := asFailure(err)
	return f != nil && slices.Contains(any, f.Status)
}

func isMissing(err error) bool { return hasStatus(err, http.StatusNotFound) }

func isTooLarge(err error) bool {
	f := asFailure(err)
	return f != nil && (f.Status == http.StatusRequestEntityTooLarge || strings.HasPrefix(f.Type, "too_long"))
}

// isRejected reports whether there was no room for a request, which a smaller one may find.
func isRejected(err error) bool {
	f := asFailure(err)
	return f != nil && f.Status == http.StatusTooManyRequests && !f.isBlock()
}

// isAbovePressure reports whether a request was rejected that by itself takes more than all may: it never succeeds.
func isAbovePressure(err error) bool {
	if !isRejected(err) {
		return false
	}
	m := ofPressure.FindStringSubmatch(asFailure(err).Reason)
	if m == nil {
		return false
	}
	took, err := strconv.ParseInt(m[1], 10, 64)
	most, errMost := strconv.ParseInt(m[2], 10, 64)
	return err == nil && errMost == nil && took > most
}
