package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"replicator/internal/servers"
)

func serverFaults() map[string]fault {
	all := map[string]fault{}
	for _, name := range []string{"source", "main", "cache", "search"} {
		of := func(w *world) *servers.Server {
			return map[string]*servers.Server{"source": w.source, "main": w.main, "cache": w.cache,
				"search": w.servers.search}[name]
		}
		fits := func(p Plan) bool { return name == "source" || slices.Contains(p.sinks(), name) }
		all[name+" killed"] = fault{about: "the server is killed, and restarted later", fits: fits,
			begin: func(_ context.Context, w *world, _ Fault) (heal, error) {
				return of(w).Restart, of(w).Kill()
			}}
		all[name+" frozen"] = fault{about: "the server does not answer for a while", fits: fits,
			begin: func(_ context.Context, w *world, _ Fault) (heal, error) {
				server := of(w)
				if !server.Running() { // another fault stopped the server
					return nil, errSkipped
				}
				return func(context.Context) error { return server.Resume() }, server.Suspend()
			}}
		all[name+" set back"] = fault{about: "the server gets an older copy of its data", fits: fits,
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				if name == "source" && w.replica != nil { // w.replica would keep changes that an older source lacks
					return nil, errSkipped
				}
				return setBack(ctx, w, of(w))
			}}
	}
	return all
}

// setBack copies a server's data. The end of the fault restores the copy.
func setBack(ctx context.Context, w *world, s *servers.Server) (heal, error) {
	if err := s.Kill(); err != nil {
		return nil, err
	}
	// The name is unique, because two faults may each need a copy.
	kept := filepath.Join(s.Dir, fmt.Sprint("kept", time.Now().UnixNano()))
	data := filepath.Join(s.Dir, "data")
	if err := copyDir(kept, data); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		w.reader.forgive()
		if err := s.Kill(); err != nil {
			return err
		}
		if err := os.RemoveAll(data); err != nil {
			return err
		}
		if err := os.Rename(kept, data); err != nil {
			return err
		}
		return s.Restart(ctx)
	}, s.Restart(ctx)
}

func linkFaults() map[string]fault {
	all := map[string]fault{}
	for _, name := range []string{"source", "main", "cache", "search"} {
		fits := func(p Plan) bool { return name == "source" || slices.Contains(p.sinks(), name) }
		all[name+" link cut"] = fault{about: "the link closes its open connections", fits: fits,
			begin: func(_ context.Context, w *world, _ Fault) (heal, error) {
				w.links[name].cut()
				return nil, nil
			}}
		hows := []string{"silent", "slow", "drip", "refuse"}
		if name == "search" {
			hows = append(hows, "busy") // every answer is 429
		}
		for _, how := range hows {
			all[name+" link "+how] = fault{about: "its connections misbehave for a while (" + how + ")", fits: fits,
				begin: func(_ context.Context, w *world, _ Fault) (heal, error) {
					w.links[name].hurt(how)
					if how == "refuse" {
						w.links[name].cut()
					}
					return func(context.Context) error { w.links[name].hurt(""); return nil }, nil
				}}
		}
	}
	return all
}
