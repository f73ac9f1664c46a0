package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
)

var _ replicator.Tidier = (*Target)(nil)

// Strays implements replicator.Tidier: documents without a state, which the program never writes.
func (t *Target) Strays(ctx context.Context, view int, after string, limit int) ([]replicator.Stray, string, error) {
	found, next, err := t.hits(ctx, view, filter(), after, limit)
	if err != nil {
		return nil, "", err
	}
	var suspects []*document
	write := t.kept[view].generation.write
	for _, h := range found {
		d := &document{index: write, id: h.ID, routing: h.Routing, source: h.Source, exists: true}
		if d.isStray() {
			suspects = append(suspects, d)
		}
	}
	if err := t.sink.client.read(ctx, suspects); err != nil { // as they are now
		return nil, "", fmt.Errorf("view %s: %w", t.views[view].Name, t.replaced(ctx, err))
	}
	var strays []replicator.Stray
	for _, d := range suspects {
		if d.isStray() {
			at, _ := json.Marshal([2]string{d.id, d.routing}) // texts can always be marshalled
			strays = append(strays, replicator.Stray{Name: d.id, At: string(at), Kind: replicator.Extra})
		}
	}
	return strays, next, nil
}

// isStray reports whether the document is there without a state.
func (d *document) isStray() bool {
	var doc struct {
		State json.RawMessage `json:"_replicator"`
	}
	return d.exists && (json.Unmarshal(d.source, &doc) != nil || doc.State == nil)
}

// Tidy implements replicator.Tidier.
func (t *Target) Tidy(ctx context.Context, view int, strays []replicator.Stray) (removed int, err error) {
	write := t.kept[view].generation.write
	var documents []*document
	for _, s := range strays {
		var at [2]string
		if err := json.Unmarshal([]byte(s.At), &at); err != nil {
			return 0, fmt.Errorf("%q is no place in a view: %w", s.At, err)
		}
		documents = append(documents, &document{index: write, id: at[0], routing: at[1]})
	}
	if err := t.sink.client.read(ctx, documents); err != nil {
		return 0, fmt.Errorf("view %s: %w", t.views[view].Name, t.replaced(ctx, err))
	}
	for _, d := range documents {
		if !d.isStray() {
			continue
		}
		seq, term := int(d.seq), int(d.term)
		err := t.sink.client.call(ctx, esapi.DeleteRequest{
			Index: write, DocumentID: url.PathEscape(d.id), // it is not escaped by Do
			Routing: d.routing, IfSeqNo: &seq, IfPrimaryTerm: &term}, nil)
		switch f := asFailure(err); {
		case err == nil:
			removed++
		case f != nil && f.Status == http.StatusConflict: // somebody wrote it meanwhile: it is looked at again next time
		case isMissing(err):
		default:
			return removed, fmt.Errorf("view %s: removing document %s, which nobody claims: %w", t.views[view].Name, d.id, err)
		}
	}
	return removed, nil
}
