package sinktest

import "testing"

func contract(t *testing.T, s *Subject) {}
