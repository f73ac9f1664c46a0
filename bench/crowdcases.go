package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"replicator/internal/servers"
)

// These cases measure one key with many cells (values of the column role). The program keeps all cells of a key in one
// Redis record or Elasticsearch document. Each batch rewrites the whole record or document.

func crowdsOfOneEntity() []bound {
	return []bound{
		{name: "entity-redis", what: "one entity with %s cells, into an index in Redis", full: 100_000, ddl: noTables,
			views: func(l *boundLab, _ int) string {
				return hashSink(l.cache) + strings.Replace(emailView, "cell.users", "cell", 1)
			},
			write: oneEntity, check: emailSets},
		{name: "entity-elastic", what: "one entity with %s cells, into a document", full: 100_000, ddl: noTables,
			search: true,
			views: func(l *boundLab, _ int) string {
				return fmt.Sprintf("[sinks.main]\ntype = \"elastic\"\naddresses = [%q]\n\n[views.users]\nfrom = \"cell\"\n"+
					"sink = \"main\"\nkind = \"document\"\nindex = %q\nfields = [\"email\"]\n", l.search.DSN(""), documentIndex)
			},
			write: oneEntity, check: oneDocument},
	}
}

// emailSets checks that Redis has a set for each cell's email.
func emailSets(ctx context.Context, l *boundLab, n int) (err error) {
	rdb, err := l.redis()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	held, err := (&hashes{rdb: rdb}).count(ctx, emailPrefix)
	if err == nil && held != n {
		err = fmt.Errorf("the result is wrong: there are %d sets, not %d", held, n)
	}
	return err
}

// oneDocument checks that there is exactly one document, with the email of one of the cells.
func oneDocument(ctx context.Context, l *boundLab, _ int) error {
	d := documents{url: l.search.DSN(""), http: http.DefaultClient}
	if err := d.call(ctx, http.MethodPost, "/"+documentIndex+"/_refresh", nil, nil); err != nil {
		return err
	}
	var found struct {
		Hits struct {
			Hits []struct {
				Source struct {
					Email string `json:"email"`
				} `json:"_source"`
			} `json:"hits"`
		} `json:"hits"`
	}
	if err := d.call(ctx, http.MethodGet, "/"+documentIndex+"/_search?_source_includes=email", nil, &found); err != nil {
		return err
	}
	if hits := found.Hits.Hits; len(hits) != 1 || !strings.HasSuffix(hits[0].Source.Email, "@x.org") {
		return fmt.Errorf("the result is wrong: there must be one document with an email, but there are %v", hits)
	}
	return nil
}

func (b bound) startSearch(ctx context.Context) (*servers.Server, error) {
	if !b.search {
		return nil, nil
	}
	return servers.Start(ctx, servers.Options{Kind: servers.Elasticsearch, Small: true,
		Args: serverArgs(servers.Elasticsearch)})
}
