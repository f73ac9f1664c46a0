package pipeline

import (
	"slices"
	"sync"
)

// list is a shared list. Its mutex guards it: the supervisor's goroutine changes it, any goroutine may read it.
type list[T comparable] struct {
	mu    sync.Mutex
	items []T
}

func (l *list[T]) all() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.items)
}

func (l *list[T]) add(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = append(l.items, item)
}

func (l *list[T]) replace(old T, by ...T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.items, old); i >= 0 {
		l.items = append(slices.Delete(l.items, i, i+1), by...)
	}
}
