//go:build !profile

package main

func profiled(execute func() int) int { return execute() }
