package servers

import (
	"context"
	"fmt"
	"os"
)

// tool returns the installation of a Debian program that is not a kind of server. The first call on a machine fetches
// the program's packages and calls finish, which creates the programs in bin.
func tool(ctx context.Context, name string, sp *spec, finish func(dir string) error) (root string, err error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	say := func(text string) { fmt.Fprintf(os.Stderr, "servers: %s: %s\n", name, text) }
	root, err = once(ctx, cache, name, say, func(dir string, log *os.File) error {
		if err := fetchPackages(ctx, cache, sp, dir, log, say); err != nil {
			return err
		}
		return finish(dir)
	})
	if err != nil {
		return "", &MissingError{Kind: Kind(name), Looked: []string{"it could not be fetched from Debian: " +
			trimmed(err)}, cause: err}
	}
	return root, nil
}
