//go:build !linux

package servers

// memoryDir returns "". Only Linux always has a directory in memory.
func memoryDir() string { return "" }
