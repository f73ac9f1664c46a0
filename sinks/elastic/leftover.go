package elastic

import (
	"context"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
)

var _ replicator.Emptier = (*Sink)(nil)

// Left implements replicator.Emptier. It lists every index whose mapping names the view or its shadow.
func (s *Sink) Left(ctx context.Context, view string) (left []replicator.Leftover, err error) {
	all, err := s.leftIndexes(ctx, view)
	for i := 0; i < len(all) && err == nil; i++ {
		var counted struct{ Count int64 }
		of := all[i].index
		if all[i].shown {
			of = all[i].alias() // the view's alias has a filter that hides documents of deleted cells
		}
		err = s.client.call(ctx, esapi.CountRequest{Index: []string{of}}, &counted)
		left = append(left, replicator.Leftover{What: "index " + all[i].index, Count: counted.Count, Of: "documents"})
	}
	return left, err
}

// Empty implements replicator.Emptier. It removes every index that Left lists, and with the indexes their aliases.
func (s *Sink) Empty(ctx context.Context, view string) error {
	all, err := s.leftIndexes(ctx, view)
	for i := 0; i < len(all) && err == nil; i++ {
		err = s.remove(ctx, all[i].index)
	}
	return err
}

func (s *Sink) leftIndexes(ctx context.Context, view string) (left []*generation, err error) {
	all, err := s.generations(ctx, "*")
	for _, g := range all {
		if strings.TrimSuffix(g.view, replicator.ShadowSuffix) == view {
			left = append(left, g)
		}
	}
	return left, err
}
