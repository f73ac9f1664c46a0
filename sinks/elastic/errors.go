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

// failure is Elasticsearch's description of a failed request, or of a failed item of a request.
type failure struct {
	Status int `json:"-"`
	reason
}

type reason struct {
	Type   string  `json:"type"`
	Reason string  `json:"reason"`
	Index  string  `json:"index"` // the index that the error concerns; "" if there is none
	Cause  *reason `json:"caused_by"`
}

// Error returns what is wrong. It omits the parts of Elasticsearch's reasons that may quote values of the document.
func (f *failure) Error() string {
	text := fmt.Sprintf("the cluster answers %d %s", f.Status, cmp.Or(f.Type, http.StatusText(f.Status)))
	for _, say := range []func(typ, text string) string{specific, harmless} { // the most helpful description first
		for r := &f.reason; r != nil; r = r.Cause {
			if safe := say(r.Type, r.Reason); safe != "" {
				return text + ": " + safe
			}
		}
	}
	return text
}

// deepest returns the full text of the innermost reason. Callers may show the text only if the request contained no
// document.
func (f *failure) deepest() string {
	r := &f.reason
	for r.Cause != nil && r.Cause.Reason != "" {
		r = r.Cause
	}
	return ofSimulation.ReplaceAllString(r.Reason, "")
}

// ofSimulation matches the name of the template that Elasticsearch makes up to simulate the creation of an index (see
// Sink.simulate).
var ofSimulation = regexp.MustCompile(`(?:index_template|composable template) \[simulate_template_[^\]]*\](?: invalid, cause)? ?`)

// field returns the field that the document was refused for; "" if the reason names none.
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

// Parts of Elasticsearch's error texts that concern the mapping, and so never quote a value of a document.
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

// ofPipeline matches the error of an index whose settings name a missing pipeline.
var ofPipeline = regexp.MustCompile(`^pipeline with id \[[^\]]*\] does not exist$`)

// asItIs is the advice for a value that Elasticsearch can store but can't index by its members.
const asItIs = `map the field as "flattened" (OpenSearch: "flat_object"), or as "object" with "enabled": false`

// aboutServer matches types of errors whose reasons concern the cluster, never a document.
var aboutServer = regexp.MustCompile(`^(cluster_block|security|index_not_found|resource_already_exists|` +
	`invalid_index_name|unavailable_shards|master_not_discovered|process_cluster_event_timeout|` +
	`circuit_breaking|no_shard_available_action|invalid_alias_name|cluster_manager|validation|settings|` +
	`mapper_parsing_in_mapping)_?`)

// ofRequest matches the end of a reason from "Timeout: [" on. Elasticsearch quotes the failed request there, with its
// document: index {[INDEX][ID], source[…]}.
var ofRequest = regexp.MustCompile(`(?s)\.? *Timeout: \[.*`)

// specific describes an error of Elasticsearch precisely if its text has a known form, and returns "" otherwise.
func specific(typ, text string) string {
	if typ == "routing_missing_exception" {
		return "the index requires a routing for each document (_routing.required). Give the view a routing"
	}
	if m := ofStrict.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("the mapping is strict and has no field [%s]", m[1])
	}
	if m := ofImmense.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("the value of field [%s] is longer than 32766 bytes, the limit of a term. "+
			"Set ignore_above, or map the field as text", m[1])
	}
	if m := ofMixed.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("field [%s] holds both objects and other values, which no mapping allows; %s", m[1], asItIs)
	}
	if ofMapper.MatchString(text) || ofPipeline.MatchString(text) { // these two kinds of text quote no values
		return text
	}
	if ofName.MatchString(text) {
		return "a member's name is empty, or has an empty part next to a dot, which no mapping allows; " +
			asItIs
	}
	if m := ofLimit.FindStringSubmatch(text); m != nil {
		if setting := limits[m[1]]; setting != "" {
			return m[0] + ". Set " + setting + " in a settings_file, or use `fields` to leave out members that need " +
				"no search"
		}
		return m[0]
	}
	return ""
}

// limits maps the name of a mapping limit, as Elasticsearch's errors give it, to the setting that raises the limit.
var limits = map[string]string{
	"total fields":  "index.mapping.total_fields.limit",
	"mapping depth": "index.mapping.depth.limit",
	"nested fields": "index.mapping.nested_fields.limit",
}

// harmless returns the part of an error text that quotes no document; "" if there is none.
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

const rejected = "rejected_execution_exception" // Elasticsearch puts es_ before this type

var (
	ofQueue = regexp.MustCompile(`\[name = ([^,\]]+), queue capacity = (\d+)`)
	// ofPressure matches the size of the refused request, and the limit for all requests together.
	ofPressure = regexp.MustCompile(`operation_bytes=(\d+), max_\w+=(\d+)`)
)

// full returns which queue or memory limit had no room for a request or an item, from the text of Elasticsearch's
// error. It leaves out the rest of the text, which may include the document.
func full(text string) string {
	if m := ofQueue.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("the thread pool %s is full (queue capacity %s)", m[1], m[2])
	}
	if m := ofPressure.FindString(text); m != "" {
		return "the memory for writes, indexing_pressure.memory.limit, has no room (" + m + ")"
	}
	return ""
}

func refused(status int, answer []byte) error {
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	f := &failure{}
	if json.Unmarshal(answer, &body) == nil && len(body.Error) > 0 && body.Error[0] == '{' {
		_ = json.Unmarshal(body.Error, f) // missing members stay empty
	}
	f.Status = status
	return f.classify()
}

// classify adds to the failure what to do. It makes the failure Fatal if an operator must act.
func (f *failure) classify() error {
	switch {
	case f.isClosed():
		return replicator.Fatal(fmt.Errorf("%w; the index is closed. Open it with `POST /%s/_open`, or rebuild the "+
			"view", f, cmp.Or(f.Index, "INDEX")))
	case f.lacksPipeline():
		return replicator.Fatal(fmt.Errorf("%w; the index's settings name the pipeline, by settings_file or a "+
			"template. Create it, or set index.default_pipeline and index.final_pipeline to \"_none\"", f))
	case isSuccess(f.Status):
		return replicator.Fatal(fmt.Errorf("%w, but wrote nothing: a pipeline of the index (index.default_pipeline or "+
			"index.final_pipeline) dropped the document. Set both to \"_none\"", f))
	case f.lacksShards():
		return fmt.Errorf("%w; copies of the index's shard are missing. `GET _cluster/allocation/explain` says why, "+
			"and index.write.wait_for_active_shards says how many the index needs", f)
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

// These match blocks that a user set by a request, and not those that Elasticsearch sets itself. ofBlock matches a
// block of one index, ofClusterBlock a block of the whole cluster.
var (
	ofBlock = regexp.MustCompile(
		`index \[([^\]]*)\] blocked by: \[[A-Z_]+/\d+/index (metadata|read-only|read|write) \(api\)`)
	ofClusterBlock = regexp.MustCompile(`^blocked by: \[[A-Z_]+/\d+/cluster (read-only(?: / allow delete)?) \(api\)`)
)

func (f *failure) unblocking() string {
	setting := strings.NewReplacer(" / ", "_", "-", "_", " ", "_")
	if m := ofBlock.FindStringSubmatch(f.Reason); m != nil {
		return fmt.Sprintf("the index is blocked: `PUT /%s/_settings {\"index.blocks.%s\": null}` removes the block",
			m[1], setting.Replace(m[2]))
	}
	if m := ofClusterBlock.FindStringSubmatch(f.Reason); m != nil {
		none := fmt.Sprintf("{\"cluster.blocks.%s\": null}", setting.Replace(m[1]))
		return fmt.Sprintf("the whole cluster is blocked: "+
			"`PUT /_cluster/settings {\"persistent\": %s, \"transient\": %[1]s}` removes the block", none)
	}
	switch {
	case strings.Contains(f.Reason, "flood-stage"), strings.Contains(f.Reason, "index read-only / allow delete"):
		return "usually the disk is nearly full (flood stage). Free disk space, or see the index's blocks"
	case strings.Contains(f.Reason, "/no master"), strings.Contains(f.Reason, "/no cluster-manager"),
		strings.Contains(f.Reason, "state not recovered"):
		return "the cluster has no master, or has only just started. If that lasts, see its nodes' logs"
	}
	return "see `GET _cluster/settings` and the index's blocks"
}

func (f *failure) isBlock() bool { return f.Type == "cluster_block_exception" }

// isTemporary reports whether an item may succeed if it is sent again after a short wait. It is false if copies of a
// shard are missing, because Elasticsearch has already waited for them. It is also false if the index is blocked,
// because a block stays until an operator removes it or the disk has room.
func (f *failure) isTemporary() bool {
	return (f.Status == http.StatusTooManyRequests || f.Status >= 500) && !f.isBlock() && !f.lacksShards()
}

func (f *failure) lacksShards() bool { return f.Type == "unavailable_shards_exception" }

// ofNodes matches types of temporary errors: a node is busy or does not answer.
var ofNodes = regexp.MustCompile(
	`rejected_execution|circuit_breaking|time(d_)?out|node|connect|transport|shard|master|cluster_manager|task_cancelled`)

// statusOfType returns the HTTP status that fits the failure's type: 503 if the failure is temporary, 403 for a block
// or a lack of rights, and 400 for all others.
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

func (f *failure) isClosed() bool { return f.Type == "index_closed_exception" }

func (f *failure) lacksPipeline() bool { return ofPipeline.MatchString(f.Reason) }

// isGone reports whether the alias or index of a write no longer exists.
func (f *failure) isGone() bool {
	return f.Type == "index_not_found_exception" || f.Type == "alias_not_found_exception"
}

// inView adds the view's name to an error, and marks the error as the view's own (see ofView).
func inView(v *replicator.View, err error) error {
	if err == nil {
		return nil
	}
	return ofView(v, fmt.Errorf("view %s: %w", v.Name, err))
}

func existsAlready(err error) bool {
	f := asFailure(err)
	return f != nil && f.Type == "resource_already_exists_exception"
}

// ofView marks an error as the view's own if it concerns the view's index or definition and not the whole cluster.
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

// ofCluster reports whether the whole cluster fails, whatever is requested: logins fail, a node is busy, there is no
// master, or the whole cluster is blocked. The status alone doesn't tell, because 429 can also mean that Elasticsearch
// blocked one index when the disk was full.
func (f *failure) ofCluster() bool {
	switch {
	case f.lacksShards(), f.Type == "no_shard_available_action_exception":
		return false
	case f.isBlock():
		return !strings.HasPrefix(f.Reason, "index [")
	}
	return f.Status == http.StatusUnauthorized || f.Status == http.StatusTooManyRequests || f.Status >= 500
}

// unreachable is the error of a request without an answer. It drops the method and the URL that Go's client adds.
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

// isRejected reports whether the cluster had no room for a request. It may have room for a smaller request.
func isRejected(err error) bool {
	f := asFailure(err)
	return f != nil && f.Status == http.StatusTooManyRequests && !f.isBlock()
}

// isAbovePressure reports whether a request alone exceeds the limit for all requests. It can never succeed.
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
