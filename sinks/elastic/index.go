package elastic

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
)

// generation is an index that replicator made for a view. The alias NAME shows the documents of one of NAME-r1, NAME-r2
// and so on. A view that is redefined or forgotten gets the next index, which takes over the alias once it is filled.
type generation struct {
	index       string
	number      int
	view        string
	fingerprint string
	forgotten   bool // readers may still see the index's documents, but nothing updates them
	shown       bool // readers see the index through the view's alias
	routed      bool // the mapping requires a routing for each document
	source      sourceField
	uuid        string // distinguishes the index from a later one with the same name

	// write is the alias that the sink writes to. Requests require an alias: if the index was removed, Elasticsearch
	// would otherwise create an index with a guessed mapping. The alias ends in random letters and digits, which change
	// each time the view's horizon rises (see gate).
	write string
}

// alias returns the name that readers use for the index.
func (g *generation) alias() string { return generationName.FindStringSubmatch(g.index)[1] }

// holds reports whether the index belongs to the view and was created with exactly the view's fingerprint.
func (g *generation) holds(v *replicator.View) bool {
	return g.belongs(v) && g.fingerprint == v.Fingerprint
}

// belongs reports whether the index belongs to the view as the configuration defines it. The tables' part of the
// fingerprints does not count, because sources whose tables differ may fill one index.
func (g *generation) belongs(v *replicator.View) bool {
	return !g.forgotten && g.write != "" && g.view == v.Name && g.source.keeping(v) == nil &&
		replicator.InFile(g.fingerprint) == replicator.InFile(v.Fingerprint)
}

// takes reports whether a source can continue the view in the index `g`. It can if the source has not written to this
// index yet, or began there with the same definition of the view. If the source's tables have changed, all sources
// start again in a new index, because a document's id may belong to a different cell now.
func (s *Sink) takes(ctx context.Context, g *generation, v *replicator.View, source string) (bool, error) {
	if source == "" || !g.belongs(v) {
		return g.holds(v), nil
	}
	r, err := s.registry(ctx, g)
	if err != nil {
		return false, err
	}
	own, known := r[source]
	return !known || own.fingerprint(g) == v.Fingerprint, nil
}

// meta is what the index's mapping says about the index. It identifies replicator's indexes.
func (g *generation) meta() object {
	own := object{"view": g.view, "fingerprint": g.fingerprint}
	if g.forgotten {
		own["forgotten"] = true
	}
	return object{"replicator": own}
}

// writeSuffix stands between an index's name and random letters and digits in the name of the write alias.
const writeSuffix = "-write-"

// newGate makes a name for the index's write alias.
func (g *generation) newGate() string {
	return g.index + writeSuffix + strings.ToLower(rand.Text()[:8])
}

var generationName = regexp.MustCompile(`^(.+)-r([1-9][0-9]*)$`)

// indexInfo is the answer to GET INDEX for one index.
type indexInfo struct {
	Aliases  map[string]json.RawMessage `json:"aliases"`
	Mappings struct {
		Meta struct {
			Replicator struct {
				View        string `json:"view"`
				Fingerprint string `json:"fingerprint"`
				Forgotten   bool   `json:"forgotten"`
			} `json:"replicator"`
		} `json:"_meta"`
		Routing struct {
			Required bool `json:"required"`
		} `json:"_routing"`
		Source sourceField `json:"_source"`
	} `json:"mappings"`
	Settings struct {
		Index struct {
			UUID    string `json:"uuid"`
			Mapping struct {
				Source struct {
					Mode string `json:"mode"`
				} `json:"source"`
			} `json:"mapping"`
		} `json:"index"`
	} `json:"settings"`
}

// describe returns the indexes that a name, alias or pattern refers to, by name.
func (s *Sink) describe(ctx context.Context, name string) (found map[string]indexInfo, err error) {
	err = s.client.call(ctx, esapi.IndicesGetRequest{
		Index: []string{name}, ExpandWildcards: "all",
		FilterPath: []string{"*.aliases", "*.mappings._meta", "*.mappings._routing", "*.mappings._source",
			"*.mappings.properties." + stateField, "*.settings.index.mapping.source",
			"*.settings.index.uuid"},
	}, &found)
	if isMissing(err) {
		return nil, nil
	}
	return found, err
}

func (g *generation) putMeta() esapi.Request {
	return esapi.IndicesPutMappingRequest{Index: []string{g.index}, Body: body(object{"_meta": g.meta()})}
}

// remove removes an index. A missing index is not an error.
func (s *Sink) remove(ctx context.Context, index string) error {
	err := s.client.call(ctx, esapi.IndicesDeleteRequest{Index: []string{index}}, nil)
	if isMissing(err) {
		return nil
	}
	return err
}

// generations lists replicator's indexes behind an alias ("*": behind all aliases), in the order of their numbers.
func (s *Sink) generations(ctx context.Context, alias string) ([]*generation, error) {
	found, err := s.describe(ctx, alias+"-r*")
	if err != nil {
		return nil, fmt.Errorf("listing the indexes: %w", err)
	}
	var all []*generation
	for name, info := range found {
		m := generationName.FindStringSubmatch(name)
		own := info.Mappings.Meta.Replicator
		if m == nil || own.View == "" || alias != "*" && m[1] != alias {
			continue
		}
		number, err := strconv.Atoi(m[2])
		if err != nil {
			continue
		}
		g := &generation{index: name, number: number, view: own.View, fingerprint: own.Fingerprint, forgotten: own.Forgotten,
			routed: info.Mappings.Routing.Required, source: info.sourceField(),
			uuid: info.Settings.Index.UUID}
		_, g.shown = info.Aliases[m[1]]
		for a := range info.Aliases {
			if strings.HasPrefix(a, name+writeSuffix) {
				g.write = a
			}
		}
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *generation) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.index, b.index))
	})
	return all, nil
}

func newest(all []*generation) []*generation {
	last := map[string]*generation{}
	for _, g := range all {
		last[g.view] = g // all is sorted by number, so the highest one wins
	}
	return slices.SortedFunc(maps.Values(last), func(a, b *generation) int { return cmp.Compare(a.view, b.view) })
}

// openGeneration finds the index (generation) in which a source continues a view, or creates one.
func (s *Sink) openGeneration(ctx context.Context, k *keeper, source string) error {
	if _, err := s.behind(ctx, k.alias); err != nil {
		return err
	}
	for range 5 {
		all, err := s.generations(ctx, k.alias)
		if err != nil {
			return err
		}
		shown := slices.ContainsFunc(all, func(g *generation) bool { return g.shown })
		isShadow := k.view.Shadows != ""
		own := slices.DeleteFunc(slices.Clone(all), func(g *generation) bool { return g.isShadow() != isShadow })
		if n := len(own); n > 0 {
			goesOn, err := s.takes(ctx, own[n-1], k.view, source)
			if err != nil {
				return err
			}
			if goesOn {
				k.useIndex(own[n-1])
				s.retireSuperseded(own[:n-1])
				return s.goOn(ctx, k, shown || isShadow)
			}
		}
		err = s.create(ctx, k, shown || isShadow)
		if existsAlready(err) {
			continue // another replicator has just created this index
		}
		if err != nil {
			return err
		}
		s.removeAbandoned(ctx, own)
		return nil
	}
	return errors.New("gave up creating an index for the view, because other replicators with different definitions " +
		"of it keep creating indexes, too. Give all of them the same configuration, or stop the others")
}

// goOn prepares an existing index for further writes: if the view's alias leads to no index, goOn points it to this
// one.
func (s *Sink) goOn(ctx context.Context, k *keeper, shown bool) error {
	if shown {
		return nil
	}
	return s.show(ctx, []*generation{k.generation}, nil) // another program removed the alias or its index
}

// nextNumber returns the number of the next index behind an alias. It is above the number of every index with such a
// name, even of an index that replicator did not create.
func (s *Sink) nextNumber(ctx context.Context, alias string) (int, error) {
	found, err := s.describe(ctx, alias+"-r*")
	if err != nil {
		return 0, fmt.Errorf("listing the indexes: %w", err)
	}
	next := 1
	for name := range found {
		if m := generationName.FindStringSubmatch(name); m != nil && m[1] == alias {
			if n, err := strconv.Atoi(m[2]); err == nil {
				next = max(next, n+1)
			}
		}
	}
	return next, nil
}

// create creates the view's next index. The view's alias leads to the new index at once, unless it leads to an older
// index.
func (s *Sink) create(ctx context.Context, k *keeper, othersShown bool) error {
	number, err := s.nextNumber(ctx, k.alias)
	if err != nil {
		return err
	}
	g := &generation{
		index: k.alias + "-r" + strconv.Itoa(number), number: number,
		view: k.view.Name, fingerprint: k.view.Fingerprint, shown: !othersShown,
	}
	g.write = g.newGate()
	design, err := s.design(ctx, k.view, g)
	if err != nil {
		return err
	}
	err = s.client.call(ctx, esapi.IndicesCreateRequest{Index: g.index, Body: body(design)}, nil)
	if hasStatus(err, http.StatusBadRequest) && !existsAlready(err) {
		return misdesigned(k.view, err)
	}
	if err != nil {
		return fmt.Errorf("creating index %s: %w", g.index, err)
	}
	made, err := s.describe(ctx, g.index) // a template may have added to the index's mapping
	if err != nil {
		return fmt.Errorf("looking at index %s: %w", g.index, err)
	}
	if err := made[g.index].sourceField().keeping(k.view); err != nil {
		return errors.Join(err, s.remove(ctx, g.index)) // _source can't be changed later
	}
	g.routed, g.uuid = made[g.index].Mappings.Routing.Required, made[g.index].Settings.Index.UUID
	k.useIndex(g)
	s.log.Info("index created", "sink", s.name, "view", k.view.Name, "index", g.index, "shown", g.shown)
	return nil
}

// show gives the indexes in `show` their views' aliases, and takes all aliases from those in `instead`, in one request.
// So nothing can be written to the replaced indexes any more. They are removed a while later (see retired).
func (s *Sink) show(ctx context.Context, show, instead []*generation) error {
	var actions []any
	var names []string
	for _, g := range show {
		add := object{"index": g.index, "alias": g.alias(), "filter": filter()}
		actions = append(actions, object{"add": add})
		names = append(names, g.index)
	}
	for _, old := range instead {
		for _, alias := range []string{old.alias(), old.index + writeSuffix + "*"} {
			remove := object{"index": old.index, "alias": alias, "must_exist": false}
			actions = append(actions, object{"remove": remove})
		}
	}
	request := esapi.IndicesUpdateAliasesRequest{Body: body(object{"actions": actions})}
	if err := s.client.call(ctx, request, nil); err != nil {
		return fmt.Errorf("pointing the aliases to %s: %w", strings.Join(names, ", "), err)
	}
	for _, g := range show {
		g.shown = true
	}
	s.retired.add(s.config.SearchTime, instead...)
	return nil
}

// removeAbandoned removes a view's older indexes that readers never saw. Indexes that an earlier process replaced, but
// did not live to remove, are added to the list for removal. An index that can't be removed does no harm.
func (s *Sink) removeAbandoned(ctx context.Context, older []*generation) {
	s.retireSuperseded(older)
	for _, g := range older {
		if g.shown || g.isRetired() {
			continue
		}
		if err := s.remove(ctx, g.index); err != nil {
			s.log.Warn("an index that is no longer needed can't be removed", "sink", s.name, "index", g.index, "error", err)
		}
	}
}
