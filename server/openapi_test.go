package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator"
)

// schema has the parts of JSON Schema that docs/openapi.json uses.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"` // a type's name, or a list of names
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	Enum       []string          `json:"enum"`
	Format     string            `json:"format"`
}

// document is docs/openapi.json.
type document struct {
	Paths map[string]map[string]struct {
		Security  []any
		Responses map[string]struct {
			Content map[string]struct{ Schema schema }
		}
	}
	Components struct{ Schemas map[string]schema }
}

func openAPI(t *testing.T) document {
	t.Helper()
	text, err := os.ReadFile("../docs/openapi.json")
	var d document
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// check returns an error if a value doesn't match the schema.
func (d document) check(at string, v any, s schema) error {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		known, ok := d.Components.Schemas[name]
		if !ok {
			return fmt.Errorf("there is no schema %s", name)
		}
		return d.check(at, v, known)
	}
	types, ok := s.Type.([]any)
	if !ok {
		types = []any{s.Type}
	}
	kind := "null"
	switch v := v.(type) {
	case bool:
		kind = "boolean"
	case string:
		kind = "string"
		if _, err := time.Parse(time.RFC3339, v); s.Format == "date-time" && err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if s.Enum != nil && !slices.Contains(s.Enum, v) {
			return fmt.Errorf("%s is %q", at, v)
		}
	case float64:
		if kind = "number"; v == float64(int64(v)) && slices.Contains(types, any("integer")) {
			kind = "integer"
		}
	case []any:
		kind = "array"
		for i, item := range v {
			if err := d.check(fmt.Sprintf("%s[%d]", at, i), item, *s.Items); err != nil {
				return err
			}
		}
	case map[string]any:
		kind = "object"
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				return fmt.Errorf("%s lacks %s", at, name)
			}
		}
		for name, member := range v {
			known, ok := s.Properties[name]
			if !ok {
				return fmt.Errorf("%s.%s is not in the document", at, name)
			}
			if err := d.check(at+"."+name, member, known); err != nil {
				return err
			}
		}
	}
	if !slices.Contains(types, any(kind)) {
		return fmt.Errorf("%s is of type %s, not %v", at, kind, types)
	}
	return nil
}

func TestTheDocumentOfTheAPINamesEveryRoute(t *testing.T) {
	d := openAPI(t)
	var documented, served []string
	for path, methods := range d.Paths {
		for method := range maps.Keys(methods) {
			documented = append(documented, strings.ToUpper(method)+" "+path)
		}
	}
	for _, r := range (&Server{metrics: NewMetrics()}).routes() {
		served = append(served, strings.Replace(r.pattern, "/{$}", "/", 1))
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("docs/openapi.json has\n%s\nthe server\n%s", strings.Join(documented, "\n"), strings.Join(served, "\n"))
	}
}

// Every answer matches docs/openapi.json, whatever its status. The document names each request that needs the token.
func TestAnswersAreAsTheDocumentOfTheAPISays(t *testing.T) {
	d := openAPI(t)
	views := append(troubled(), rebuilding()...)
	views[0].Source, views[0].LastError = "east", &replicator.PastError{Error: "it was full"}
	eta := 3.5
	views[6].ETA = &eta
	p, m := &program{views: views}, NewMetrics()
	m.Sources(sourceOf)
	s, _ := serve(t, "127.0.0.1:0", "s3cret", p, m)
	s.watch.lookAtSources(t.Context())
	ready, _ := serve(t, "127.0.0.1:0", "", &program{views: shop()}, m)
	for _, c := range []struct {
		server       *Server
		method, path string // as written in the document
		real         string // the path that is requested
		body         string
		fails        error
		code         int
	}{
		{s, "GET", "/api/v1/status", "/api/v1/status", "", nil, 200},
		{s, "GET", "/api/v1/status", "/api/v1/status", "", ErrStandby, 503},
		{s, "GET", "/api/v1/wait", "/api/v1/wait?gtid=a&view=b&view=c", "", nil, 200},
		{s, "GET", "/api/v1/wait", "/api/v1/wait", "", nil, 400},
		{s, "GET", "/api/v1/wait", "/api/v1/wait?gtid=a&view=b", "", ErrUnknown, 404},
		{s, "POST", "/api/v1/views/{view}/rebuild", "/api/v1/views/v/rebuild", `{"in_place": true}`, nil, 202},
		{s, "POST", "/api/v1/views/{view}/rebuild", "/api/v1/views/v/rebuild", `{}`, ErrBusy, 409},
		{s, "POST", "/api/v1/views/{view}/rebuild", "/api/v1/views/v/rebuild", `{}`,
			errors.Join(ErrBusy, replicator.ErrRebuilding), 409},
		{s, "POST", "/api/v1/views/{view}/rebuild", "/api/v1/views/v/rebuild", `{}`,
			errors.Join(ErrBusy, replicator.ErrPaused), 409},
		{s, "POST", "/api/v1/views/{view}/look", "/api/v1/views/v/look",
			`{"source": "east", "cells": [{"table": "t", "key": "AAE=", "column": "c"}]}`, nil, 200},
		{s, "POST", "/api/v1/views/{view}/look", "/api/v1/views/v/look", `{"cells": []}`, ErrUnknown, 404},
		{s, "POST", "/api/v1/views/{view}/look", "/api/v1/views/v/look", `{}`, nil, 400},
		{s, "POST", "/api/v1/views/{view}/look", "/api/v1/views/v/look", "", nil, 400},
		{s, "POST", "/api/v1/views/{view}/look", "/api/v1/views/v/look", `{"cells": []}`,
			errors.Join(ErrBusy, replicator.ErrPaused), 409},
		{s, "POST", "/api/v1/views/{view}/pause", "/api/v1/views/v/pause", "", nil, 202},
		{s, "POST", "/api/v1/views/{view}/resume", "/api/v1/views/v/resume", "", ErrUnknown, 404},
		{s, "GET", "/api/v1/deadletters", "/api/v1/deadletters?view=orders_by_status", "", nil, 200},
		{s, "GET", "/api/v1/deadletters", "/api/v1/deadletters?view=nobody", "", ErrUnknown, 404},
		{s, "GET", "/api/v1/deadletters/{id}", "/api/v1/deadletters/letter-v", "", nil, 200},
		{s, "GET", "/api/v1/deadletters/{id}", "/api/v1/deadletters/other", "", nil, 404},
		{s, "POST", "/api/v1/deadletters/retry", "/api/v1/deadletters/retry", `{"group": "g"}`, nil, 200},
		{s, "POST", "/api/v1/deadletters/drop", "/api/v1/deadletters/drop", `{"all": true}`, nil, 200},
		{s, "POST", "/api/v1/deadletters/drop", "/api/v1/deadletters/drop", `{}`, nil, 400},
		{s, "GET", "/healthz", "/healthz", "", nil, 200},
		{s, "GET", "/readyz", "/readyz", "", nil, 503},
		{s, "GET", "/readyz", "/readyz", "", errors.New("no store"), 503},
		{ready, "GET", "/readyz", "/readyz", "", nil, 200},
	} {
		name := fmt.Sprintf("%s %s %d", c.method, c.real, c.code)
		p.fails(c.fails)
		told := d.Paths[c.path][strings.ToLower(c.method)]
		if len(told.Security) > 0 {
			if code, _, _ := ask(t, c.server, c.method, c.real, c.body, nil); code != 401 {
				t.Errorf("%s without the token: %d", name, code)
			}
		}
		headers := map[string]string{}
		if len(told.Security) > 0 {
			headers["Authorization"] = "Bearer s3cret"
		}
		code, _, text := ask(t, c.server, c.method, c.real, c.body, headers)
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil || code != c.code {
			t.Errorf("%s: %d, %v: %.200s", name, code, err, text)
			continue
		}
		answer, ok := told.Responses[fmt.Sprint(code)]
		if !ok {
			t.Errorf("%s: the document does not know that status", name)
			continue
		}
		if err := d.check("it", v, answer.Content["application/json"].Schema); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
