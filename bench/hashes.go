package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"replicator/internal/servers"
)

const hashPrefix = "user:"

// hashView is the configuration of the hash view, and hashSink returns the configuration of its sink.
const hashView = "[views.users]\nfrom = \"cell.users\"\nsink = \"main\"\nkind = \"hash\"\nkey = \"" + hashPrefix +
	"{row_key}\"\n" + userFields

func hashSink(s *servers.Server) string {
	return fmt.Sprintf("[sinks.main]\ntype = \"redis\"\nurl = %q\n", s.DSN("0"))
}

const userFields = "fields = [\"username\", \"email\", \"phone\", \"password\", \"activate\"]\n"

const emailPrefix = "email:"

const emailView = "\n[views.user_by_email]\nfrom = \"cell.users\"\nsink = \"main\"\nkind = \"index\"\nkey = \"" + emailPrefix +
	"{email}\"\n"

// hashes is a Redis server that contains a hash for each user.
type hashes struct {
	server *servers.Server
	rdb    *redis.Client
	want   func(w *workload, c cell) map[string]string // the hash for a user, given its newest row
}

// startHashes starts a Redis for hashes. The method close stops it.
func (l *lab) startHashes(ctx context.Context) (*hashes, error) {
	server, err := l.start(ctx, servers.Redis7)
	if err != nil {
		return nil, err
	}
	h, err := openHashes(server)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return h, nil
}

// withHashes calls do with a Redis for hashes. If this machine can't run Redis, it notes that the stage was left out.
func (l *lab) withHashes(ctx context.Context, stage string, do func(store *hashes) error) error {
	store, err := l.startHashes(ctx)
	if missing := (*servers.MissingError)(nil); errors.As(err, &missing) {
		l.leftOut = append(l.leftOut, fmt.Sprintf("%s: %v", stage, err))
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(do(store), store.close())
}

func openHashes(server *servers.Server) (*hashes, error) {
	o, err := redis.ParseURL(server.DSN("0"))
	if err != nil {
		return nil, err
	}
	return &hashes{server: server, rdb: redis.NewClient(o), want: keptUser}, nil
}

func keptUser(w *workload, c cell) map[string]string { return w.user(c).hash() }

func (h *hashes) drop(ctx context.Context) error { return h.rdb.FlushAll(ctx).Err() }
func (h *hashes) close() error                   { return errors.Join(h.rdb.Close(), h.server.Close()) }

func (h *hashes) write(ctx context.Context, users []user) error {
	_, err := h.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range users {
			u := &users[i]
			p.HSet(ctx, hashKey(u.key), "username", u.username, "email", u.email,
				"phone", u.phone, "password", u.password, "activate", strconv.FormatBool(u.activate))
		}
		return nil
	})
	return err
}

func (h *hashes) verify(ctx context.Context, w *workload, n int) (int64, error) {
	newest := w.present(n)
	err := ranges(0, 1, len(newest), laneBatch, func(from, to int) error {
		cmds, err := h.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, c := range newest[from:to] {
				p.HGetAll(ctx, hashKey(w.key(c.entity)))
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, cmd := range cmds {
			want := h.want(w, newest[from+i])
			if held := cmd.(*redis.MapStringStringCmd).Val(); !maps.Equal(held, want) {
				return fmt.Errorf("%v is %v, not %v", cmd.Args()[1], held, want)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	held, err := h.count(ctx, hashPrefix)
	if err == nil && held != len(newest) {
		err = fmt.Errorf("there are %d hashes for %d entities", held, len(newest))
	}
	return int64(held), err
}

// verifyIndex compares every index entry with the workload's first n rows, and returns the number of entries.
func (h *hashes) verifyIndex(ctx context.Context, w *workload, n int) (int64, error) {
	newest := w.present(n)
	err := ranges(0, 1, len(newest), laneBatch, func(from, to int) error {
		cmds, err := h.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, c := range newest[from:to] {
				p.SMembers(ctx, emailPrefix+w.user(c).email)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, cmd := range cmds {
			key := w.key(newest[from+i].entity)
			want := []string{hex.EncodeToString(key[:])}
			if held := cmd.(*redis.StringSliceCmd).Val(); !slices.Equal(held, want) {
				return fmt.Errorf("%v is %v, not %v", cmd.Args()[1], held, want)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	held, err := h.count(ctx, emailPrefix)
	if err == nil && held != len(newest) {
		err = fmt.Errorf("there are %d index entries for %d entities", held, len(newest))
	}
	return int64(held), err
}

func hashKey(entity [16]byte) string { return hashPrefix + hex.EncodeToString(entity[:]) }

func (h *hashes) count(ctx context.Context, prefix string) (int, error) {
	held := map[string]struct{}{} // SCAN may return a key twice
	keys := h.rdb.Scan(ctx, 0, prefix+"*", laneBatch).Iterator()
	for keys.Next(ctx) {
		held[keys.Val()] = struct{}{}
	}
	return len(held), keys.Err()
}

// hash returns a user's properties as a Redis hash contains them.
func (u user) hash() map[string]string {
	return map[string]string{"username": u.username, "email": u.email,
		"phone": strconv.Itoa(u.phone), "password": u.password,
		"activate": strconv.FormatBool(u.activate)}
}
