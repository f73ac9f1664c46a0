package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// advice is a command line that the program or the manual tells people to run.
type advice struct {
	at   string // FILE:LINE
	text string // without "replicator"
}

// The program, its page, its alerts and the manual tell people to run commands. The program's own parser must accept
// each of them: the command and its flags must exist, and the values and the number of arguments must be valid.
func TestAdviceNamesCommandsAndFlagsThatExist(t *testing.T) {
	said := append(adviceInCode(t), adviceInTexts(t)...)
	if n := len(said); n < 120 {
		t.Errorf("only %d commands were found", n)
	}
	for _, a := range said {
		if err := a.parse(); err != nil {
			t.Errorf("%s: `replicator %s`: %v", a.at, a.text, err)
		}
	}
	for text, works := range map[string]bool{
		"verify --repair users": true, "status --json": true, "deadletters list": true, "explain VIEW KEY": true,
		"explain": true, "checkpoint set --pos FILE:POS --yes": true, "wait --gtid SET": true,
		"verfy": false, "verify --repiar": false, "deadletters lsit": false, "explain VIEW": false,
		"status users": true, "check extra": false, "rebuild --rate soon v": false, "-c": false,
	} {
		if err := (advice{text: text}).parse(); (err == nil) != works {
			t.Errorf("`replicator %s`: %v", text, err)
		}
	}
}

var (
	quoted      = regexp.MustCompile("`replicator( [^`]*)`")
	inBlock     = regexp.MustCompile(`(?m)^ *(?:\$ )?(?:\w+=\S+ )*replicator( (?:[^\n\\]|\\\n)*)`)
	fences      = regexp.MustCompile("(?ms)^ *```(?:sh|console|)\n(.*?)^ *```$")
	verb        = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]`)
	shellEnd    = regexp.MustCompile(`^([|;#>&<]|&&|\|\||2>.*|>.*)$`)
	shellWord   = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"]+)+`)
	helpExample = regexp.MustCompile(`(?m)^  replicator (\S.*?)(?:  .*)?$`)
)

// parse checks the command line with the program's parser, but doesn't run it. If the text is only a command's name,
// parse checks only that the command exists.
func (a advice) parse() error {
	var words []string
	text := strings.TrimSuffix(strings.ReplaceAll(a.text, "\\\n", " "), "\\")
	for _, w := range shellWord.FindAllString(text, -1) {
		if shellEnd.MatchString(w) {
			break
		}
		if w = strings.Trim(w, "[]()…,'\""); w != "" {
			words = append(words, w)
		}
	}
	root := newRoot()
	cmd, rest, err := root.Find(words)
	switch {
	case err != nil:
		return err
	case len(rest) == 0:
		return nil
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if err := cmd.ParseFlags(valued(cmd.Flags(), rest)); err != nil {
		return err
	}
	if cmd == root && cmd.Flags().NArg() == 0 && cmd.Flags().NFlag() == 0 {
		return nil
	}
	if help := cmd.Flags().Lookup("help"); help.Changed {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// valued replaces placeholders for numbers and durations by valid values.
func valued(flags *pflag.FlagSet, words []string) []string {
	words = slices.Clone(words)
	for i, w := range words[:len(words)-1] {
		if name, ok := strings.CutPrefix(w, "--"); ok {
			if f := flags.Lookup(name); f != nil && f.Value.Type() != "string" && words[i+1] == strings.ToUpper(words[i+1]) {
				switch f.Value.Type() {
				case "int":
					words[i+1] = "1"
				case "duration":
					words[i+1] = "1s"
				}
			}
		}
	}
	return words
}

// adviceInCode returns the commands in back quotes in the sources' string literals, and the examples in help texts. In
// a text that is built from several parts, X stands for the parts that are known only at run time.
func adviceInCode(t *testing.T) (found []advice) {
	t.Helper()
	files := token.NewFileSet()
	walk(t, ".go", func(path string, text []byte) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		tree, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			x, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			literal, isText := folded(x)
			if !isText {
				return true
			}
			at := fmt.Sprintf("%s:%d", path, files.Position(x.Pos()).Line)
			for _, m := range quoted.FindAllStringSubmatch(literal, -1) {
				found = append(found, advice{at, verb.ReplaceAllString(m[1], "X")})
			}
			for _, m := range helpExample.FindAllStringSubmatch(literal, -1) {
				found = append(found, advice{at, verb.ReplaceAllString(m[1], "X")})
			}
			return false
		})
	})
	return found
}

// folded returns the text of a literal, or of several literals and other expressions that are added with +.
func folded(x ast.Expr) (text string, ok bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			text, err := strconv.Unquote(x.Value)
			return text, err == nil
		}
	case *ast.ParenExpr:
		return folded(x.X)
	case *ast.BinaryExpr:
		if x.Op == token.ADD {
			left, isText := folded(x.X)
			right, isTextToo := folded(x.Y)
			if !isText {
				left = "X"
			}
			if !isTextToo {
				right = "X"
			}
			return left + right, isText || isTextToo
		}
	}
	return "", false
}

// adviceInTexts returns the commands in the manual, the page, the alerts and similar files: commands in back quotes,
// and lines in blocks of commands.
func adviceInTexts(t *testing.T) (found []advice) {
	t.Helper()
	take := func(path, text string, of *regexp.Regexp, offset int) {
		for _, m := range of.FindAllStringSubmatchIndex(text, -1) {
			line := 1 + offset + strings.Count(text[:m[0]], "\n")
			found = append(found, advice{fmt.Sprintf("%s:%d", path, line), text[m[2]:m[3]]})
		}
	}
	for _, ext := range []string{".md", ".html", ".js", ".yml", ".yaml", ".toml", ".sh", ".service", ".json", ".sql"} {
		walk(t, ext, func(path string, content []byte) {
			text := string(content)
			take(path, text, quoted, 0)
			for _, m := range fences.FindAllStringSubmatchIndex(text, -1) {
				take(path, text[m[2]:m[3]], inBlock, strings.Count(text[:m[2]], "\n"))
			}
			if ext == ".sh" {
				take(path, text, inBlock, 0)
			}
		})
	}
	return found
}

// walk calls read with each of the repository's files that has the extension. The paths are relative to the
// repository's root.
func walk(t *testing.T, ext string, read func(path string, text []byte)) {
	t.Helper()
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		name := filepath.Base(path)
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "dist" || name == "bin"):
			return filepath.SkipDir
		case e.IsDir() || filepath.Ext(name) != ext:
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			path, err = filepath.Rel(root, path)
			read(path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
