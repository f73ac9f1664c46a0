package servers

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// memoryNeeded is how many bytes of memory must be available for servers to be in memory. It is several times what the
// servers of a test run use at once.
const memoryNeeded = 8 << 30

const (
	tmpfs = 0x01021994 // the kernel's TMPFS_MAGIC
	// the kernel's ST_NOEXEC; it must not be set, because Elasticsearch loads a library from its directory
	noPrograms = 0x8
)

// memoryDir returns a directory in memory with room for temporary servers. It returns "" if the machine has no such
// directory.
//
// Directories in memory save CPU time: when ext4 creates an inode, it searches the inodes that were deleted in the last
// seconds (recently_deleted). That took a twelfth of a test run's CPU time.
func memoryDir() string {
	const dir = "/dev/shm"
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil || st.Type != tmpfs || st.Flags&noPrograms != 0 ||
		int64(st.Bavail)*int64(st.Bsize) < memoryNeeded || memoryAvailable() < memoryNeeded {
		return ""
	}
	return dir
}

// memoryAvailable returns how many bytes of memory are available on the machine, or the container's limit if that is
// lower.
func memoryAvailable() int64 {
	available := int64(0)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "MemAvailable:" {
				available = number(f[1]) << 10
			}
		}
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) != "max" {
			available = min(available, number(strings.TrimSpace(string(text))))
		}
	}
	return available
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
