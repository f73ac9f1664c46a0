package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

type machine struct {
	Cores      int    `json:"cores"`
	CPU        string `json:"cpu,omitempty"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	LoadBefore string `json:"load_before"` // averages over 1, 5 and 15 minutes
	LoadAfter  string `json:"load_after"`
}

func thisMachine() machine {
	return machine{
		Cores:      runtime.NumCPU(),
		CPU:        cpuModel(),
		Kernel:     strings.TrimSpace(runtime.GOOS + " " + procFile("sys/kernel/osrelease")),
		Go:         runtime.Version(),
		LoadBefore: load(),
	}
}

// load returns the load average. It returns "" if the system does not report it.
func load() string {
	fields := strings.Fields(procFile("loadavg"))
	if len(fields) < 3 {
		return ""
	}
	return strings.Join(fields[:3], " ")
}

func cpuModel() string {
	for line := range strings.Lines(procFile("cpuinfo")) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return ""
}

// procFile returns the content of a file below /proc. It returns "" if the file does not exist.
func procFile(name string) string {
	text, err := os.ReadFile("/proc/" + name)
	if err != nil {
		return ""
	}
	return string(text)
}

func (m *machine) String() string {
	return fmt.Sprintf("%d cores (%s), %s, %s; load average before %s, after %s", m.Cores, m.CPU, m.Kernel, m.Go,
		m.LoadBefore, m.LoadAfter)
}
