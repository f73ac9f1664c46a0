//go:build !linux

package servers

// memoryDir is "": only Linux has a directory in memory that is always there.
func memoryDir() string { return "" }
