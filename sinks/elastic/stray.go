package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
)

var _ replicator.Tidier = (*Target)(nil)

// Strays implements replicator.Tidier. It returns documents whose state names no cell. Replicator never writes such
// documents.
func (t *Target) Strays(
	ctx context.Context, view int, after string, limit int,
) (strays []replicator.Stray, next string, err error) {
	err = t.throughGates(ctx, func() (err error) {
		strays, next, err = t.strays(ctx, view, after, limit)
		return err
	})
	return strays, next, err
}

func (t *Target) strays(ctx context.Context, view int, after string, limit int) ([]replicator.Stray, string, error) {
	found, next, err := t.hits(ctx, view, filter(), after, limit)
	if err != nil {
		return nil, "", err
	}
	var suspects []*document
	for _, h := range found {
		d := t.kept[view].document(h.ID, h.Routing)
		if d.source, d.exists = h.Source, true; t.isStray(d) {
			suspects = append(suspects, d)
		}
	}
	var strays []replicator.Stray
	err = t.straysOf(ctx, suspects, func(d *document) error {
		at, _ := json.Marshal([2]string{d.id, d.routing}) // strings always encode
		strays = append(strays, replicator.Stray{Name: d.id, At: string(at), Kind: replicator.Extra})
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("view %s: %w", t.views[view].Name, err)
	}
	return strays, next, nil
}

// straysOf reads documents again, and calls the function `each` with every one whose state still names no cell.
func (t *Target) straysOf(ctx context.Context, documents []*document, each func(*document) error) error {
	return t.sink.client.inParts(documents, func(part []*document) error {
		if err := t.sink.client.read(ctx, part); err != nil {
			return err
		}
		for _, d := range part {
			if t.isStray(d) {
				if err := each(d); err != nil {
					return err
				}
			}
			d.release()
		}
		return nil
	})
}

// isStray reports whether the document exists and its state names no cell. A state that can't be read names none. The
// progress document is never a stray.
func (t *Target) isStray(d *document) bool {
	return d.exists && d.id != registryID && !slices.ContainsFunc(d.contents(), func(s *slot) bool {
		_, _, ok := t.sink.cell(s)
		return ok
	})
}

// Tidy implements replicator.Tidier. It removes the documents whose state still names no cell, and that no one changes
// meanwhile.
func (t *Target) Tidy(ctx context.Context, view int, strays []replicator.Stray) (removed int, err error) {
	err = t.throughGates(ctx, func() error {
		n, err := t.tidy(ctx, view, strays)
		removed += n
		return err
	})
	return removed, err
}

func (t *Target) tidy(ctx context.Context, view int, strays []replicator.Stray) (removed int, err error) {
	var documents []*document
	for _, s := range strays {
		var at [2]string
		if err := json.Unmarshal([]byte(s.At), &at); err != nil {
			return 0, fmt.Errorf("%q is not a document's address: %w", s.At, err)
		}
		documents = append(documents, t.kept[view].document(at[0], at[1]))
	}
	err = t.straysOf(ctx, documents, func(d *document) error {
		seq, term := int(d.seq), int(d.term)
		err := t.sink.client.call(ctx, esapi.DeleteRequest{
			Index: d.index, DocumentID: url.PathEscape(d.id), // Do does not escape the id
			Routing: d.routing, IfSeqNo: &seq, IfPrimaryTerm: &term}, nil)
		switch f := asFailure(err); {
		case err == nil:
			removed++
		case f != nil && f.Status == http.StatusConflict: // the document has changed: the next pass checks it again
		case isMissing(err):
		default:
			return fmt.Errorf("removing the orphaned document %s: %w", d.id, err)
		}
		return nil
	})
	if err != nil {
		return removed, fmt.Errorf("view %s: %w", t.views[view].Name, err)
	}
	return removed, nil
}
