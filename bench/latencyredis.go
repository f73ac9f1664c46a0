package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// told is a notification from Redis that a hash has changed.
type told struct {
	at  time.Duration // time since the writer began
	key string
}

// lookAnyway is how long a reader waits for a notification before it reads the hashes anyway, because a notification
// may be lost.
const lookAnyway = 100 * time.Millisecond

// notified returns a watcher that subscribes to Redis's notifications of changed hashes (keyspace notifications), and
// reads each hash that a notification names.
func (h *hashes) notified(v *live) watcher {
	return func(ctx context.Context, s *sight, poll func(look func(oldest int) error) error) error {
		if err := h.rdb.ConfigSet(ctx, "notify-keyspace-events", "Kh").Err(); err != nil {
			return err
		}
		const channel = "__keyspace@0__:"
		subscribed := h.rdb.PSubscribe(ctx, channel+hashPrefix+"*")
		if _, err := subscribed.Receive(ctx); err != nil {
			return errors.Join(err, subscribed.Close())
		}
		changed := make(chan told, v.total())
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				m, err := subscribed.ReceiveMessage(ctx)
				if err != nil {
					return // the subscription has ended; from now on, the reader only polls, each 100 ms (`lookAnyway`)
				}
				select {
				case changed <- told{v.now(), strings.TrimPrefix(m.Channel, channel)}:
				default:
				}
			}
		})
		err := poll(func(oldest int) error {
			some, err := next(ctx, changed)
			if err != nil {
				return err
			}
			if len(some) == 0 {
				some = h.unseen(v, s, oldest)
			}
			return h.see(ctx, v, s, some)
		})
		err = errors.Join(err, subscribed.Close())
		wg.Wait()
		return err
	}
}

// polled returns a watcher that reads the hashes that have not been seen, once in each period.
func (h *hashes) polled(v *live, every time.Duration) watcher {
	return func(ctx context.Context, s *sight, poll func(look func(oldest int) error) error) error {
		return poll(func(oldest int) error {
			nap(every)
			return h.see(ctx, v, s, h.unseen(v, s, oldest))
		})
	}
}

// next waits for notifications from Redis and returns all that have arrived. It returns none if none arrives within the
// time `lookAnyway`.
func next(ctx context.Context, changed <-chan told) (some []told, err error) {
	timer := time.NewTimer(lookAnyway)
	defer timer.Stop()
	select {
	case one := <-changed:
		some = append(some, one)
	case <-timer.C:
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for {
		select {
		case one := <-changed:
			some = append(some, one)
		default:
			return some, nil
		}
	}
}

// unseen returns the Redis hashes whose written rows the reader has not seen yet, from the row number `oldest` on.
// Their time is 0, because no notification named them.
func (h *hashes) unseen(v *live, s *sight, oldest int) (some []told) {
	for n := oldest; n < min(oldest+laneBatch, v.issued()); n++ {
		if s.seen[n] == 0 {
			some = append(some, told{0, hashKey(v.cells.key(v.cells.at(n).entity))})
		}
	}
	return some
}

// see reads Redis hashes, and records when the rows in them were seen: at the time of the notification, or now if there
// was none.
func (h *hashes) see(ctx context.Context, v *live, s *sight, some []told) error {
	cmds, err := h.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, one := range some {
			p.HGet(ctx, one.key, "email")
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	now := v.now()
	for i, cmd := range cmds {
		email, err := cmd.(*redis.StringCmd).Result()
		switch {
		case errors.Is(err, redis.Nil):
			continue
		case err != nil:
			return err
		}
		at := some[i].at
		if at == 0 {
			at = now
		}
		if err := v.note(s, at, email); err != nil {
			return err
		}
	}
	return nil
}
