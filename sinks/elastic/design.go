package elastic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
)

// design returns the body of the request that creates an index, or an error if the cluster would refuse it. To find
// out, it asks the cluster to simulate a template with these mappings and settings, which changes nothing. If the user
// may not simulate, the error appears when the index is created.
func (s *Sink) design(ctx context.Context, v *replicator.View, g *generation) (object, error) {
	design, err := s.creation(ctx, v, g)
	if err != nil {
		return nil, err
	}
	made, refused, err := s.simulate(ctx, g, design)
	if refused && settingsOf(v).Mapping == "" && withoutUnsigned(design) {
		made, refused, err = s.simulate(ctx, g, design)
	}
	if refused {
		return nil, misdesigned(v, err)
	}
	if err != nil {
		return nil, err
	}
	template, err := s.template(ctx, g)
	if err != nil {
		return nil, err
	}
	own := made.sourceField()
	source, _ := design["mappings"].(object)["_source"].(object)
	if enabled := fmt.Sprint(source["enabled"]) == "true"; enabled {
		// The simulated mapping omits the design's `enabled: true`, because that is the default. But the design
		// overrides a template's `enabled: false`.
		own.Enabled = &enabled
	}
	return design, template.sourceField().overriddenBy(own).keeping(v)
}

type simulation struct {
	Template indexInfo `json:"template"`
}

// ofSource is a filter_path for requests that simulate the creation of an index. It limits the answers to the rules
// about _source.
var ofSource = []string{"template.mappings._source", "template.settings.index.mapping.source"}

// template asks what the cluster's own templates set for an index. Legacy templates (_template), and templates that the
// user may not read, only show after the index is created.
func (s *Sink) template(ctx context.Context, g *generation) (indexInfo, error) {
	var made simulation
	err := s.client.call(ctx, esapi.IndicesSimulateIndexTemplateRequest{Name: g.index, FilterPath: ofSource}, &made)
	if err != nil && asFailure(err) == nil {
		return indexInfo{}, fmt.Errorf("asking which index templates apply to index %s: %w", g.index, err)
	}
	return made.Template, nil
}

// simulate asks the cluster to simulate the creation of an index from `design`, without the cluster's templates. made
// has the rules about _source that this index would have. If the cluster would refuse to create the index, `refused` is
// true and err says why.
func (s *Sink) simulate(ctx context.Context, g *generation, design object) (made indexInfo, refused bool, err error) {
	var simulated simulation
	template := object{
		"index_patterns": []string{g.index},
		"template":       object{"settings": simulable(design["settings"].(object)), "mappings": design["mappings"]},
	}
	err = s.client.call(ctx, esapi.IndicesSimulateTemplateRequest{Body: body(template), FilterPath: ofSource}, &simulated)
	switch f := asFailure(err); {
	case err != nil && f == nil:
		return made, false, fmt.Errorf("simulating the creation of index %s: %w", g.index, err)
	case f != nil && f.Status == http.StatusBadRequest:
		return made, true, err
	}
	return simulated.Template, false, nil
}

// simulable returns settings without those that Elasticsearch refuses only in a simulation: the simulated index always
// has one shard, so routing can't be partitioned.
func simulable(settings object) object {
	some := maps.Clone(settings)
	if index, ok := some["index"].(object); ok {
		some["index"] = simulable(index)
	}
	delete(some, "routing_partition_size")
	delete(some, "index.routing_partition_size")
	return some
}

func misdesigned(v *replicator.View, err error) error {
	with := ""
	if settings := settingsOf(v); settings.Mapping != "" || settings.IndexSettings != "" {
		with = " with its mapping_file and settings_file"
	}
	err = fmt.Errorf("index %s can't be created%s: %w", settingsOf(v).Index, with, err)
	if f := asFailure(err); f != nil && f.deepest() != "" {
		err = fmt.Errorf("%w (%s)", err, f.deepest())
	}
	return replicator.Fatal(err)
}

// filter is the alias's filter: it shows all documents except those that only remember deleted cells.
func filter() object {
	return object{"bool": object{"must_not": object{"term": object{stateField + ".hidden": true}}}}
}

func (s *Sink) creation(ctx context.Context, v *replicator.View, g *generation) (object, error) {
	mapping, err := jsonObject(settingsOf(v).Mapping, "mappings")
	if err != nil {
		return nil, replicator.Fatal(fmt.Errorf("mapping_file: %w", err))
	}
	settings, err := jsonObject(settingsOf(v).IndexSettings, "settings")
	if err != nil {
		return nil, replicator.Fatal(fmt.Errorf("settings_file: %w", err))
	}
	if settingsOf(v).Mapping == "" {
		if mapping, err = s.made(ctx, v); err != nil {
			return nil, err
		}
		s.client.known(member(mapping, "properties"))
		if !strings.Contains(settingsOf(v).IndexSettings, "ignore_malformed") {
			settings["index.mapping.ignore_malformed"] = true
		}
	}
	if routing, ok := mapping["_routing"].(object); ok && fmt.Sprint(routing["required"]) == "true" && v.Member == "" {
		return nil, replicator.Fatal(errors.New("mapping_file requires a routing for each document " +
			"(_routing.required), but the view has no routing. Set one, as in routing = \"{…}\", " +
			"or remove _routing.required from the file"))
	}
	properties := member(mapping, "properties")
	// Searches only need to know whether a document is hidden, so nothing else of the state is indexed.
	properties[stateField] = object{"type": "object", "dynamic": false, "properties": object{
		"hidden": object{"type": "boolean", "doc_values": false},
		"cells":  object{"type": "object", "enabled": false},
	}}
	maps.Copy(member(mapping, "_meta"), g.meta())
	aliases := object{g.write: object{"is_hidden": true}}
	if g.shown {
		aliases[settingsOf(v).Index] = object{"filter": filter()}
	}
	return object{"settings": settings, "mappings": mapping, "aliases": aliases}, nil
}

// member returns the object under a name in another object. If there is no such object, it adds an empty one.
func member(of object, name string) object {
	inner, ok := of[name].(object)
	if !ok {
		inner = object{}
		of[name] = inner
	}
	return inner
}

// jsonObject reads a JSON object, or the object under the single name that Elasticsearch's own requests wrap it in.
func jsonObject(text, name string) (object, error) {
	top := object{}
	if text == "" {
		return top, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&top); err != nil {
		return nil, err
	}
	if inner, ok := top[name].(object); ok {
		return inner, nil
	}
	return top, nil
}
