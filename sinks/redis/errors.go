package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/remedy"
)

// startOver is the remedy if another program overwrote keys of the sink, and the sink can't repair them.
const startOver = "remove the keys of the sink's views and all keys that begin with \"" + prefix +
	"\", and then run `replicator rebuild " + remedy.Views + "`"

// plainErrors explains errors of the server and of the scripts (DAMAGED: lib.lua), by their first word. Messages have
// the explanation instead of the server's text, which may quote values. A fatal error needs the operator.
var plainErrors = map[string]struct {
	fatal bool
	hint  string
}{
	"NOAUTH":    {true, "the server wants a password: set password (and username) of the sink, or put them in its url"},
	"WRONGPASS": {true, "the server refuses user or password: correct username and password of the sink"},
	"NOPERM":    {true, "the user lacks a permission: `replicator check` says which"},
	"NOPROTO":   {true, "the server is too old"},
	"WRONGTYPE": {true, "one of the keys that begin with \"" + prefix + "\" was overwritten by something else: " +
		startOver},
	"DAMAGED": {true, "a sum or a count of claims at one of the keys that begin with \"" + prefix +
		"\" is not a number, because another program wrote to it: " + startOver},
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

// plainError is the word of an error that plainErrors explains, such as "OOM".
type plainError string

func (e plainError) Error() string { return string(e) + ": " + plainErrors[string(e)].hint }

const noPermission = plainError("NOPERM")

// quoted matches what an error quotes. It may be a value that was sent, which must not reach a log.
var quoted = regexp.MustCompile("[`'\"].*[`'\"]")

// refusals are parts of the messages by which versions of Redis and Valkey report, from inside a script, that the user
// lacks a permission.
var refusals = []string{"The user executing the script", "No permissions to access", "ACL failure in script",
	"has no permissions to"}

// unknownCommand matches the server's error about a command that it does not have, and captures the command's name. The
// error has no name if a script used the command.
var unknownCommand = regexp.MustCompile("(?i)unknown (?:redis |valkey )?command " +
	"(?:[`']([a-z.|]+)[`'],|called from script)")

// word returns the word that identifies a server's error, and whether plainErrors explains it.
func word(text string) (word string, known bool) {
	if slices.ContainsFunc(refusals, func(r string) bool { return strings.Contains(text, r) }) {
		return "NOPERM", true
	}
	word, _, _ = strings.Cut(text, " ")
	if _, known = plainErrors[word]; known {
		return word, true
	}
	// An error from inside a script has the identifying word in its middle, as in "ERR OOM …".
	for w := range plainErrors {
		if strings.Contains(text, w+" ") {
			return w, true
		}
	}
	return word, false
}

// passes reports whether a server's error is temporary, so that no setting of the sink can fix it.
func passes(err error) bool {
	var fromServer redis.Error
	if !errors.As(err, &fromServer) {
		return false
	}
	w, known := word(fromServer.Error())
	return known && !plainErrors[w].fatal
}

// classify adds to err what was being done, removes quoted values, and makes errors Fatal that only the operator can
// fix.
func classify(err error, doing string) error {
	if err == nil || replicator.IsFatal(err) || errors.Is(err, context.Canceled) {
		return err
	}
	var fromServer redis.Error
	if !errors.As(err, &fromServer) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	text := fromServer.Error()
	word, known := word(text)
	switch {
	case known && plainErrors[word].fatal:
		return replicator.Fatal(fmt.Errorf("%s: %w", doing, plainError(word)))
	case known:
		return fmt.Errorf("%s: %w", doing, plainError(word))
	case strings.Contains(text, "AUTH") && strings.Contains(text, "called without any password"):
		return replicator.Fatal(fmt.Errorf("%s: a password is configured, but the server has none for this user. "+
			"Remove `password` from the sink's configuration", doing))
	}
	if m := unknownCommand.FindStringSubmatch(text); m != nil {
		return replicator.Fatal(fmt.Errorf("%s: the server has no command %s: take its rename-command out of the "+
			"server's configuration", doing,
			cmp.Or(strings.ToUpper(m[1]), "that a script needs (`replicator check` names the command)")))
	}
	return fmt.Errorf("%s: %s", doing, quoted.ReplaceAllString(text, "…"))
}
