package mysql

// SetFewCells changes how many cells a key may have before it is a crowd.
func (s *Sink) SetFewCells(n int) { s.few = n }
