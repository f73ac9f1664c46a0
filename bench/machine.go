package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine is what the figures depend on besides the programs.
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

// load is the load average; "" where the system doesn't say it.
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

// procFile is a file below /proc; "" where there is none.
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
