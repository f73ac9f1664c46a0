package pipeline

import "time"

// nopObserver is the Observer of a pipeline that has none.
type nopObserver struct{}

func (nopObserver) Applied(string, string, int)      {}
func (nopObserver) Stale(string, int)                {}
func (nopObserver) DeadLetter(string, string)        {}
func (nopObserver) Visible(string, time.Duration)    {}
func (nopObserver) Scanned(string, int)              {}
func (nopObserver) Batch(string, int, time.Duration) {}
func (nopObserver) Retry(string)                     {}
