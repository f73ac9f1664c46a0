//go:build !linux

package servers

// memoryDir returns "", because only Linux reliably has a directory in memory.
func memoryDir() string { return "" }
