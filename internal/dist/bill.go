package dist

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"time"
)

// bill is a software bill of materials in CycloneDX 1.5, with the members used here.
type bill struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Version  int    `json:"version"`
	Metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	} `json:"metadata"`
	Components []component `json:"components"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
}

func writeBill(path, program string, r Release) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	b := bill{Format: "CycloneDX", Spec: "1.5", Version: 1}
	b.Metadata.Timestamp = r.Time.UTC().Format(time.RFC3339)
	b.Metadata.Component = component{Type: "application", Ref: info.Main.Path, Name: info.Main.Path, Version: r.Version}
	module := func(name, version string) component {
		url := "pkg:golang/" + name + "@" + version
		return component{Type: "library", Ref: url, Name: name, Version: version, PURL: url}
	}
	b.Components = append(b.Components, module("std", info.GoVersion))
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		b.Components = append(b.Components, module(dep.Path, dep.Version))
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
