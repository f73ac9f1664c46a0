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

// behind are the indexes that a view's alias leads to. It fails by what hinders the alias: an index of that name, or one
// that is not ours behind it.
func (s *Sink) behind(ctx context.Context, alias string) (map[string]indexInfo, error) {
	found, err := s.describe(ctx, alias)
	if err != nil {
		return nil, fmt.Errorf("looking for index %s: %w", alias, err)
	}
	return found, strange(alias, found)
}

// strange says of what was found under an alias' name that it is not for this program.
func strange(alias string, found map[string]indexInfo) error {
	for name, info := range found {
		switch {
		case name == alias:
			return replicator.Fatal(fmt.Errorf("%s is an index, and the view needs an alias of that name: remove it with "+
				"`DELETE /%s` if nothing else uses it, or give the view another index = \"…\"", alias, alias))
		case info.Mappings.Meta.Replicator.View == "":
			return replicator.Fatal(fmt.Errorf("the alias %s leads to index %s, which is not this program's: remove the alias "+
				"with `DELETE /%s/_alias/%s`, or give the view another index = \"…\"", alias, name, name, alias))
		}
	}
	return nil
}

// amiss says what is wrong with what an alias leads to, where all of that is ours; "" if nothing is.
func amiss(alias string, found map[string]indexInfo) string {
	names := slices.Sorted(maps.Keys(found))
	if len(names) > 1 {
		return "it leads to several indexes, " + strings.Join(names, " and ")
	}
	for _, name := range names {
		if numberOf(alias, name) == 0 {
			return "it leads to index " + name + ", which is another view's"
		}
		if !found[name].filters(alias) {
			return "on index " + name + " it has not the program's filter"
		}
	}
	return ""
}

// filters reports whether an alias shows of the index what the program lets it show.
func (i indexInfo) filters(alias string) bool {
	var has struct {
		Filter object `json:"filter"`
	}
	err := json.Unmarshal(i.Aliases[alias], &has)
	return err == nil && reflect.DeepEqual(plain(has.Filter), plain(filter()))
}

// plain is an object as any reader of JSON has it: Elasticsearch gives filters back spaced and ordered as it likes.
func plain(o object) (value any) {
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		panic("a filter is JSON: " + err.Error())
	}
	return value
}

// numberOf is the number of an index among those of an alias; 0 if it has none.
func numberOf(alias, index string) int {
	m := generationName.FindStringSubmatch(index)
	if m == nil || m[1] != alias {
		return 0
	}
	number, _ := strconv.Atoi(m[2]) // too large for any of ours: 0
	return number
}

// mendAlias lets a view's alias show what it should, where somebody made it anew without its filter, as a script or a
// restore does, or gave it to another index of ours, too, as a template does: readers see cells that are gone then, and
// the marks, and nothing else shows it. An alias that is gone is only noted.
func (s *Sink) mendAlias(ctx context.Context, k *keeper) error {
	found, err := s.behind(ctx, k.alias)
	if err != nil {
		return err
	}
	if k.generation.shown {
		if _, k.generation.shown = found[k.generation.index]; len(found) == 0 {
			s.log.Warn("the alias is gone: it is made again", "sink", s.name, "view", k.view.Name, "alias", k.alias)
		}
	}
	wrong, right := amiss(k.alias, found), k.rightful(found)
	if wrong == "" || right == "" {
		return nil
	}
	// One request that fails as a whole if the index lost the alias since it was looked at, as by another's swap.
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
		return nil // the next look tells
	} else if err != nil {
		return fmt.Errorf("setting right what the alias %s shows: %w", k.alias, err)
	}
	s.log.Warn("readers saw what they should not: the alias is set right", "sink", s.name, "view", k.view.Name,
		"alias", k.alias, "index", right, "was", wrong)
	return nil
}

// rightful is the index that a view's alias should show of those that it leads to: the view's generation, or until that
// is filled the one before; "" if it is none of them.
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
