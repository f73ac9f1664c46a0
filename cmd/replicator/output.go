package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// printJSON prints objects as JSON, one per line.
func printJSON[T any](w io.Writer, objects []T) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, o := range objects {
		if err := e.Encode(o); err != nil {
			return err
		}
	}
	return nil
}

func printTable(w io.Writer, header []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ToUpper(strings.Join(header, "\t")))
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}
