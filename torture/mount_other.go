//go:build !linux

package main

import "errors"

const writable, readOnly uintptr = 0, 1

var errMount = errors.New("mounting file systems is only supported on Linux")

func mountSmall(string) error       { return errMount }
func remount(string, uintptr) error { return errMount }
func unmount(string) error          { return errMount }
func canMount() bool                { return false }
