package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
)

// behind returns the indexes that a view's alias leads to. It fails if an index has the alias's name, or if the alias
// leads to an index that replicator did not create.
func (s *Sink) behind(ctx context.Context, alias string) (map[string]indexInfo, error) {
	found, err := s.describe(ctx, alias)
	if err != nil {
		return nil, fmt.Errorf("looking for index %s: %w", alias, err)
	}
	return found, strange(alias, found)
}

func strange(alias string, found map[string]indexInfo) error {
	for name, info := range found {
		switch {
		case name == alias:
			return replicator.Fatal(fmt.Errorf("%s is an index, but the view needs an alias with that name. Remove "+
				"the index with `DELETE /%s` if nothing else uses it, or give the view another index = "+
				"\"…\"", alias, alias))
		case info.Mappings.Meta.Replicator.View == "":
			return replicator.Fatal(fmt.Errorf("the alias %s leads to index %s, which this program did not create. "+
				"Remove the alias with `DELETE /%s/_alias/%s`, or give the view another index = "+
				"\"…\"", alias, name, name, alias))
		}
	}
	return nil
}

// amiss returns what is wrong with an alias, or "" if it is right. found are the indexes that the alias leads to, all
// of them created by replicator.
func amiss(alias string, found map[string]indexInfo) string {
	names := slices.Sorted(maps.Keys(found))
	if len(names) > 1 {
		return "it leads to several indexes, " + strings.Join(names, " and ")
	}
	for _, name := range names {
		if numberOf(alias, name) == 0 {
			return "it leads to index " + name + ", which belongs to another view"
		}
		if !found[name].filters(alias) {
			return "on index " + name + ", it lacks the program's filter"
		}
	}
	return ""
}

func (i indexInfo) filters(alias string) bool {
	var has struct {
		Filter object `json:"filter"`
	}
	err := json.Unmarshal(i.Aliases[alias], &has)
	return err == nil && reflect.DeepEqual(plain(has.Filter), plain(filter()))
}

// plain returns an object as if it had been decoded from JSON. It makes filters comparable: Elasticsearch returns them
// with different spaces and in a different order, so their texts can't be compared.
func plain(o object) (value any) {
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		panic("elastic: encoding a filter as JSON: " + err.Error()) // can't happen: a filter consists of maps and texts
	}
	return value
}

// numberOf returns N of an index named ALIAS-rN, or 0 if its name has a different form.
func numberOf(alias, index string) int {
	m := generationName.FindStringSubmatch(index)
	if m == nil || m[1] != alias {
		return 0
	}
	number, _ := strconv.Atoi(m[2]) // fails only for a number too large for replicator to have made it
	return number
}

// mendAlias repairs a view's alias that lost its filter or leads to further indexes of replicator. Scripts, restores
// and templates can cause that, and readers would then see deleted cells and the marks. If the alias is missing,
// mendAlias clears generation.shown, and Mark adds the alias again.
func (s *Sink) mendAlias(ctx context.Context, k *keeper) error {
	found, err := s.behind(ctx, k.alias)
	if err != nil {
		return err
	}
	if k.generation.shown {
		if _, k.generation.shown = found[k.generation.index]; len(found) == 0 {
			s.log.Warn("the alias is missing, and is created "+
				"again", "sink", s.name, "view", k.view.Name, "alias", k.alias)
		}
	}
	wrong, right := amiss(k.alias, found), k.rightful(found)
	if wrong == "" || right == "" {
		return nil
	}
	// The request fails as a whole if the index has lost the alias since it was read, for example by another process's
	// swap.
	actions := []any{
		object{"remove": object{"index": right, "alias": k.alias, "must_exist": true}},
		object{"add": object{"index": right, "alias": k.alias, "filter": filter()}},
	}
	for name := range found {
		if name != right {
			actions = append(actions, object{"remove": object{"index": name, "alias": k.alias, "must_exist": false}})
		}
	}
	request := esapi.IndicesUpdateAliasesRequest{Body: body(object{"actions": actions})}
	if err := s.client.call(ctx, request, nil); isMissing(err) {
		return nil // the next check reports the missing index or alias
	} else if err != nil {
		return fmt.Errorf("correcting the alias %s: %w", k.alias, err)
	}
	s.log.Warn("another program changed an alias, so that it showed documents that it should hide. The alias is right "+
		"again", "sink", s.name, "view", k.view.Name, "alias", k.alias, "index", right, "was", wrong)
	return nil
}

// rightful returns the index that a view's alias should show: the view's own or, until that is filled, the previous
// one. It returns "" if the alias leads to neither.
func (k *keeper) rightful(found map[string]indexInfo) (right string) {
	own := k.generation.index
	if _, ok := found[own]; ok && k.generation.shown && k.view.Shadows == "" {
		return own
	}
	for name, info := range found {
		isShadow := strings.HasSuffix(info.Mappings.Meta.Replicator.View, replicator.ShadowSuffix)
		if name != own && !isShadow && numberOf(k.alias, name) > numberOf(k.alias, right) {
			right = name
		}
	}
	return right
}
