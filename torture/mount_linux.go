package main

import (
	"os"
	"syscall"
)

func mountSmall(dir string) error { return syscall.Mount("none", dir, "tmpfs", 0, "size=512k") }

const (
	writable uintptr = 0
	readOnly uintptr = syscall.MS_RDONLY
)

func remount(dir string, how uintptr) error {
	return syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|how, "size=512k")
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

func canMount() bool {
	dir, err := os.MkdirTemp("", "replicator-torture-")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	return mountSmall(dir) == nil && unmount(dir) == nil
}
