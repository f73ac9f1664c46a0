package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"replicator/server"
	"replicator/service"
)

func healthCommand(o *options) *cobra.Command {
	ready := false
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Report whether the running process answers, for a container's health check",
		Long: `Asks the running process and exits with 0 if it answers. With --ready, every view must also run and
its lag must be known. Otherwise it prints the reason and exits with 1. It needs neither a shell nor the
file's secrets.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := o.loadToAsk()
			if err != nil {
				return err
			}
			ask, word := server.Client.Alive, "alive"
			if ready {
				ask, word = server.Client.Ready, "ready"
			}
			if err := ask(service.Client(cfg), cmd.Context()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), word)
			return err
		},
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "also require that every view runs and its lag is known")
	return cmd
}
