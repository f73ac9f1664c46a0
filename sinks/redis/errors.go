package redis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// beginAnew is what helps where something of the sink's own is lost or damaged: sums and claims are made of what each
// entity is remembered to have contributed, and nothing else tells that.
const beginAnew = "remove the keys of the sink's views and all that begin with \"" + prefix +
	"\", and fill the views anew (`replicator checkpoint reset` and a restart)"

// plainErrors are the server's errors that quote nothing but what the sink itself sent, with what a person can do where
// one must act. They are told by their first word.
var plainErrors = map[string]struct {
	fatal bool
	hint  string
}{
	"NOAUTH":    {true, "the server wants a password: set password (and username) of the sink, or put them in its url"},
	"WRONGPASS": {true, "the server refuses user or password: correct username and password of the sink"},
	"NOPERM":    {true, "the user lacks a permission: `replicator check` says which"},
	"NOPROTO":   {true, "the server is too old"},
	"WRONGTYPE": {true, "one of the keys that begin with \"" + prefix + "\" was overwritten by something else: " +
		beginAnew},
	"OOM":         {false, "the server has used up maxmemory: give it more"},
	"READONLY":    {false, "the server is a replica"},
	"MISCONF":     {false, "the server can't save to its disk and takes no writes until it can"},
	"LOADING":     {false, "the server is reading its data"},
	"BUSY":        {false, "another client's script keeps the server busy"},
	"MASTERDOWN":  {false, "the server lost its master"},
	"CLUSTERDOWN": {false, "the cluster has lost a part of its slots"},
	"TRYAGAIN":    {false, "the cluster is moving slots"},
	"NOREPLICAS":  {false, "the server has fewer replicas than min-replicas-to-write"},
	"UNBLOCKED":   {false, "the server became a replica"},
}

// quoted is what an error may quote of what was sent: it must not reach a log.
var quoted = regexp.MustCompile("[`'\"].*[`'\"]")

// classify says what was being done when err happened and marks what only a person can mend.
func classify(err error, doing string) error {
	if err == nil || replicator.IsFatal(err) || errors.Is(err, context.Canceled) {
		return err
	}
	var fromServer redis.Error
	if !errors.As(err, &fromServer) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	text := fromServer.Error()
	if strings.Contains(text, "The user executing the script") || strings.Contains(text, "No permissions to access") {
		text = "NOPERM"
	}
	word, _, _ := strings.Cut(text, " ")
	// Errors inside a script: "ERR OOM …", or the word in the middle of a message about the line at fault.
	known, ok := plainErrors[word]
	if !ok || word == "ERR" {
		for w, k := range plainErrors {
			if strings.Contains(text, w+" ") {
				word, known, ok = w, k, true
				break
			}
		}
	}
	if !ok {
		if strings.Contains(text, "AUTH") && strings.Contains(text, "called without any password") {
			return replicator.Fatal(fmt.Errorf("%s: a password is configured, but the server has none for this user: "+
				"remove password of the sink", doing))
		}
		return fmt.Errorf("%s: %s", doing, quoted.ReplaceAllString(text, "…"))
	}
	described := fmt.Errorf("%s: %s: %s", doing, word, known.hint)
	if known.fatal {
		return replicator.Fatal(described)
	}
	return described
}
