//go:build !linux

package main

import "time"

// nap waits for about d.
func nap(d time.Duration) { time.Sleep(d) }
