package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

// script is a Lua script, and the SHA-1 by which a server knows it.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

// call is a command that calls a script: EVALSHA, the SHA-1, the number of keys, the keys, the arguments. `command`
// fills in the first two.
type call []any

func newCall(keys []string, args ...any) call {
	c := make(call, 3, 3+len(keys)+len(args))
	c[2] = len(keys)
	for _, key := range keys {
		c = append(c, key)
	}
	return append(c, args...)
}

// command returns the call as a command: EVALSHA with the script's SHA-1, or EVAL with its source.
func (c call) command(ctx context.Context, name string, script any) *redis.Cmd {
	c[0], c[1] = name, script
	cmd := redis.NewCmd(ctx, c...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// run calls a script several times in one round trip. If the server does not know the script, run sends its source.
// That happens when the server was restarted, took over, or was told to forget its scripts.
func (s *Sink) run(ctx context.Context, script script, calls []call) ([]*redis.Cmd, error) {
	cmds := make([]*redis.Cmd, len(calls))
	for round := 0; ; round++ {
		unknown := false
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, c := range calls {
				switch {
				case cmds[i] == nil:
					cmds[i] = c.command(ctx, "evalsha", script.sha)
				case redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT"):
					cmds[i] = c.command(ctx, "eval", script.source)
				default:
					continue
				}
				if err := p.Process(ctx, cmds[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			return cmds, nil
		}
		for _, cmd := range cmds {
			if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
				unknown = true
			} else if cmd.Err() != nil {
				return nil, cmd.Err()
			}
		}
		if !unknown || round > 0 {
			return nil, err
		}
	}
}
